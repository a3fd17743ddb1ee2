//go:build unix

package s16_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

// background is the context of what a test does besides its processes, also while it ends.
var background = context.Background()

// crowd holds every connection that a server has left.
type crowd struct{ held []*pgx.Conn }

// crowded takes what is left of the server's connections, those of a database's idle processes too.
func crowded(t *testing.T, cluster *pgtest.Cluster, at string) *crowd {
	t.Helper()
	c := &crowd{}
	t.Cleanup(c.leave)
	for full := 0; full < 3; {
		execute := func(conn *pgx.Conn) {
			_, err := conn.Exec(background, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()", database(at))
			if err != nil {
				t.Fatal(err)
			}
		}
		conn, err := pgx.Connect(background, cluster.URL("postgres"))
		var refused *pgconn.PgError
		switch {
		case err == nil:
			c.held = append(c.held, conn)
			execute(conn)
			full = 0
		case errors.As(err, &refused) && refused.Code == "53300":
			// A backend that was told to end may still be there.
			full++
			<-time.After(50 * time.Millisecond)
		default:
			t.Fatal(err)
		}
	}
	return c
}

func database(at string) string {
	c, err := pgx.ParseConfig(at)
	if err != nil {
		panic(err)
	}
	return c.Database
}

func (c *crowd) leave() {
	for _, conn := range c.held {
		_ = conn.Close(background)
	}
	c.held = nil
}

// small is a server with few connections.
func small(t *testing.T) *pgtest.Cluster {
	t.Helper()
	cluster := pgtest.Start(t)
	execute(t, cluster.URL("postgres"), "ALTER SYSTEM SET max_connections = 24")
	cluster.Kill(t)
	cluster.Up(t)
	return cluster
}

// S16.21: others hold all connections before the claim.
func TestS16_21_ConnectionsExhaustedBeforeTheClaim(t *testing.T) {
	t.Parallel()
	cluster := small(t)
	at := cluster.Database(t)
	w := newWorldAt(t, at, stripe, stripe.rules(), "")
	w.ask(stripe.refund("earlier"))
	var asks []ask
	for i := range 8 {
		asks = append(asks, stripe.refund(fmt.Sprintf("r%d", i)))
	}
	agent := w.agent("stop before create#1", asks...)
	agent.struck("stop before create#1")
	others := crowded(t, cluster, at)

	_, err := openStore(t.Context(), at, time.Now)
	var e *effectonce.Error
	if !errors.As(err, &e) || e.Code != effectonce.CodeStoreUnavailable || !strings.Contains(e.Detail, "too many connections") || e.Remedy == "" {
		t.Errorf("who starts now is told %v, want that there are too many connections and what to do", err)
	}
	for _, told := range agent.wake() {
		if told.Code != effectonce.CodeStoreUnavailable || told.Sent != effectonce.SentNo {
			t.Errorf("told %+v, want that the store is unavailable and nothing was sent", told)
		}
	}
	w.wantEffects(1)
	others.leave()
	for _, a := range asks {
		if told := w.ask(a); told.State != effectonce.StateSucceeded {
			t.Errorf("told %+v once there are connections", told)
		}
	}
	w.wantEffects(1 + len(asks))
	if n := len(w.operations()); n != 1+len(asks) {
		t.Errorf("%d operations, want %d", n, 1+len(asks))
	}
}

// S16.21: others hold all connections after the effect.
func TestS16_21_ConnectionsExhaustedAfterTheEffect(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			cluster := small(t)
			at := cluster.Database(t)
			w := newWorldAt(t, at, k, k.rules(), "")
			brief := func(t *effectonce.Terms) { t.CallTimeout, t.Grace = 3*time.Second, 200*time.Millisecond }
			agent := w.agent("stop before apply:attempt_ended#1", k.refund("r1", brief))
			agent.struck("stop before apply:attempt_ended#1")
			others := crowded(t, cluster, at)

			told := agent.wake()[0]
			if told.Code != effectonce.CodeStoreUnavailable || told.Sent != effectonce.SentUnknown {
				t.Errorf("told %+v, want that the store is unavailable and something may have been sent", told)
			}
			w.wantEffects(1)
			others.leave()
			w.worker("")
			w.settled()
			w.wantOne(k.settled(true))
			w.wantEffects(1)
		})
	}
}

// S16.21: the store is restarted in mid-load. PostgreSQL's server crashes and comes back while everybody goes on; SQLite's
// store is in its processes, which are all killed and started again.
func TestS16_21_StoreRestartedUnderLoad(t *testing.T) {
	t.Parallel()
	const agents, intents, restarts = 3, 12, 3
	everywhere(t, func(t *testing.T, on driver) {
		var cluster *pgtest.Cluster
		var at string
		if on == onPostgres {
			cluster = pgtest.Start(t)
			at = cluster.Database(t)
		} else {
			at = on.place(t)
		}
		w := newWorldAt(t, at, stripe, stripe.rules(), "refunds#* hold=30ms")
		asks := func(round int) (all []ask) {
			for i := range intents {
				a := stripe.refund(fmt.Sprintf("round %d, %d", round, i))
				a.Arguments, a.Times = json.RawMessage(`{"payment_intent":"pi_1","amount":480}`), 2
				all = append(all, a)
			}
			return all
		}
		for round := range restarts {
			var running []*process
			for range agents {
				running = append(running, w.agent("", asks(round)...))
			}
			running = append(running, w.worker(""))
			w.until("the load is under way", func() bool { return w.sends() > round*intents+intents/3 })
			if on == onPostgres {
				cluster.Kill(t)
				cluster.Up(t)
				running[len(running)-1].kill()
				for _, agent := range running[:agents] {
					for _, told := range agent.answers() {
						if told.Code == effectonce.CodeStoreBroken || told.Code == effectonce.CodeInternal {
							t.Errorf("told %+v, want that trying again may help", told)
						}
					}
				}
			}
			for _, p := range running {
				p.kill()
			}
		}
		for round := range restarts {
			w.agent("", asks(round)...).answers()
		}
		w.worker("")
		w.settled()
		ops := w.operations()
		if len(ops) != restarts*intents {
			t.Errorf("%d operations, want %d", len(ops), restarts*intents)
		}
		for _, op := range ops {
			if op.State != effectonce.StateSucceeded {
				t.Errorf("%s is %s: %s", op.IntentID, op.State, op.Reason)
			}
			w.wantOneEventPerTransition(op)
		}
		w.wantEffects(restarts * intents)
	})
}
