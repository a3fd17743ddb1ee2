//go:build unix

package s16_test

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

// placeOn makes room for a store on a disk of its own.
func (d driver) placeOn(t *testing.T, disk disk) string {
	t.Helper()
	if d == onSQLite {
		return filepath.Join(disk.dir, "effectonce.db")
	}
	// The server's log and the other databases stay where they are; what is stored goes into a tablespace on the disk.
	at, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(at.Path, "/")
	admin := *at
	admin.Path = "/template1"
	var data string
	row(t, admin.String(), "SHOW data_directory", &data)
	disk.give(data)
	place := name + "_disk"
	execute(t, admin.String(), "CREATE TABLESPACE "+place+" LOCATION '"+disk.dir+"'")
	t.Cleanup(func() {
		execute(t, admin.String(), "DROP DATABASE "+name+" WITH (FORCE)")
		execute(t, admin.String(), "DROP TABLESPACE "+place)
	})
	execute(t, admin.String(), "ALTER DATABASE "+name+" SET TABLESPACE "+place)
	return at.String()
}

const bulk = 200_000

// S16.21: the disk is full before the claim.
func TestS16_21_DiskFullBeforeTheClaim(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		disk := newDisk(t)
		w := newWorldAt(t, on.placeOn(t, disk), stripe, stripe.rules(), "")
		w.ask(stripe.refund("earlier"))
		a := stripe.refund("r1")
		a.Bulk = bulk

		agent := w.agent("stop before create#1", a)
		agent.struck("stop before create#1")
		disk.fill()
		told := agent.wake()[0]
		if told.Code != effectonce.CodeStoreUnavailable || told.Sent != effectonce.SentNo || !strings.Contains(told.Text, "disk is full") {
			t.Errorf("told %+v, want that the disk is full and nothing was sent", told)
		}
		w.wantEffects(1)
		disk.free()
		if n := len(w.operations()); n != 1 {
			t.Errorf("%d operations, want the earlier one and no half of the other", n)
		}
		if told := w.ask(a); told.State != effectonce.StateSucceeded {
			t.Errorf("told %+v once there is room", told)
		}
		w.wantEffects(2)
	})
}

// S16.21: the disk is full after the effect.
func TestS16_21_DiskFullAfterTheEffect(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for _, k := range kinds {
			t.Run(string(k), func(t *testing.T) {
				t.Parallel()
				disk := newDisk(t)
				w := newWorldAt(t, on.placeOn(t, disk), k, k.rules(), "")
				a := k.refund("r1", func(t *effectonce.Terms) { t.CallTimeout, t.Grace = 3*time.Second, 200*time.Millisecond })
				a.Bulk = bulk

				agent := w.agent("stop before apply:attempt_ended#1", a)
				agent.struck("stop before apply:attempt_ended#1")
				disk.fill()
				told := agent.wake()[0]
				if told.Code != effectonce.CodeStoreUnavailable || told.Sent != effectonce.SentUnknown || !strings.Contains(told.Text, "disk is full") {
					t.Errorf("told %+v, want that the disk is full and something may have been sent", told)
				}
				w.wantEffects(1)
				disk.free()
				w.worker("")
				w.settled()
				w.wantOne(k.settled(true))
				w.wantEffects(1)
			})
		}
	})
}

// execute runs a statement on a connection of its own.
func execute(t *testing.T, at, sql string) {
	t.Helper()
	c := connect(t, at)
	if _, err := c.Exec(background, sql); err != nil {
		t.Errorf("%s: %v", sql, err)
	}
	_ = c.Close(background)
}

// row reads one value.
func row(t *testing.T, at, sql string, into any) {
	t.Helper()
	c := connect(t, at)
	if err := c.QueryRow(background, sql).Scan(into); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	_ = c.Close(background)
}

func connect(t *testing.T, at string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(background, at)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
