package postgres_test

import (
	"bytes"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
	"github.com/effectonce/effectonce/store/postgres"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

// cutter is a TCP proxy that cuts a connection at a moment of the test's choice.
type cutter struct {
	listener net.Listener
	target   string
	// before is how many more times a connection is cut when it sends what contains the mark, which the server never gets; after
	// is how many times it is cut after the server has carried that out, whose answer the client never gets.
	before, after atomic.Int64
	mark          atomic.Pointer[[]byte]
}

// throughCutter returns the URL of a database through a proxy.
func throughCutter(t *testing.T, at string) (*cutter, string) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c := &cutter{listener: l, target: u.Host}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go c.serve(conn)
		}
	}()
	u.Host = l.Addr().String()
	return c, u.String()
}

// on sets what is looked for.
func (c *cutter) on(mark []byte, before, after int64) {
	c.mark.Store(&mark)
	c.before.Store(before)
	c.after.Store(after)
}

func (c *cutter) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var cutAnswer atomic.Bool
	go func() {
		defer func() { _ = client.Close(); _ = server.Close() }()
		b := make([]byte, 1<<16)
		for {
			n, err := server.Read(b)
			if err != nil || cutAnswer.Load() {
				return
			}
			if _, err := client.Write(b[:n]); err != nil {
				return
			}
		}
	}()
	b := make([]byte, 1<<20)
	for {
		n, err := client.Read(b)
		if err != nil {
			return
		}
		if mark := c.mark.Load(); mark != nil && bytes.Contains(b[:n], *mark) {
			if c.before.Add(-1) >= 0 {
				return
			}
			if c.after.Add(-1) >= 0 {
				cutAnswer.Store(true)
			}
		}
		if _, err := server.Write(b[:n]); err != nil {
			return
		}
	}
}

// S16.14, S5.9: a write whose answer was lost is resolved by looking: it took place once, and its caller learns that it did.
func TestLostAnswersAreResolvedByReading(t *testing.T) {
	t.Parallel()
	twin := func(op effectonce.Operation) effectonce.Operation {
		op.Terms.Twins, op.Terms.TwinsWithin, op.Twin = effectonce.TwinAllow, time.Hour, canon.Digest{7}
		return op
	}
	for _, c := range []struct {
		name          string
		before, after int64
		change        func(effectonce.Operation) effectonce.Operation
	}{
		{"cut before the commit", 1, 0, nil},
		{"cut after the commit", 0, 1, nil},
		{"cut three times", 2, 1, nil},
		{"with twins, cut before the insertion", 1, 0, twin},
		{"with twins, cut after the insertion", 0, 1, twin},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			direct := pgtest.URL(t)
			proxy, through := throughCutter(t, direct)
			s := open(t, through, postgres.Options{})
			op := operation("op")
			if c.change != nil {
				op = c.change(op)
			}
			proxy.on(op.Key[:], c.before, c.after)
			got, created, err := s.Create(t.Context(), recordedAs(op, "w"))
			if err != nil || !created || got.Version != 1 || got.State != effectonce.StateInProgress {
				t.Fatalf("created %v, version %d, %s, %v", created, got.Version, got.State, err)
			}
			proxy.on(op.Key[:], c.before, c.after)
			done, err := s.Apply(t.Context(), next(t, got, succeeded(got)))
			if err != nil || done.State != effectonce.StateSucceeded || done.Version != 2 {
				t.Fatalf("%s, version %d, %v", done.State, done.Version, err)
			}
			if stored := load(t, s, op.Key); !stored.SettledAt.Equal(done.SettledAt) || !stored.OpenedAt.Equal(done.OpenedAt) {
				t.Errorf("settled at %s, the answer said %s", stored.SettledAt, done.SettledAt)
			}
			checkAudit(t, direct)
		})
	}
}

// COMMIT itself is cut off: the transaction that looks for twins took place or not, and the answer says which.
func TestLostCommitIsResolvedByReading(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string][2]int64{"before": {1, 0}, "after": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := pgtest.URL(t)
			proxy, through := throughCutter(t, direct)
			s := open(t, through, postgres.Options{})
			op := operation("op")
			op.Terms.Twins, op.Terms.TwinsWithin, op.Twin = effectonce.TwinReject, time.Hour, canon.Digest{7}
			proxy.on([]byte("COMMIT"), cut[0], cut[1])
			if _, created, err := s.Create(t.Context(), recordedAs(op, "w")); err != nil || !created {
				t.Fatalf("created %v, %v", created, err)
			}
			checkAudit(t, direct)
		})
	}
}

// S16.14: whatever transaction it is whose COMMIT is cut off: it took place once, and its caller gets the answer.
func TestLostCommitOfEveryKind(t *testing.T) {
	t.Parallel()
	limited := func(id string) effectonce.Operation {
		op := operation(id)
		op.Limits = []effectonce.Limit{{Name: "a", Amount: 1, Max: 5}}
		return op
	}
	for _, c := range []struct {
		name string
		call func(t *testing.T, s *postgres.Store, lose func())
	}{
		{"a reservation", func(t *testing.T, s *postgres.Store, lose func()) {
			lose()
			if _, created, err := s.Create(t.Context(), recordedAs(limited("a"), "w")); err != nil || !created {
				t.Errorf("created %v, %v", created, err)
			}
			wantUsed(t, s, 1)
		}},
		{"a release", func(t *testing.T, s *postgres.Store, lose func()) {
			op, _, err := s.Create(t.Context(), recordedAs(limited("a"), "w"))
			if err != nil {
				t.Fatal(err)
			}
			lose()
			end := effectonce.AttemptEnded{Token: op.Token, End: effectonce.End{Verdict: effectonce.VerdictRejected, Failure: effectonce.Failure{Code: "no"}}}
			if op, err = s.Apply(t.Context(), next(t, op, end)); err != nil || op.State != effectonce.StateFailed {
				t.Errorf("%s, %v", op.State, err)
			}
			wantUsed(t, s, 0)
		}},
		{"a decision", func(t *testing.T, s *postgres.Store, lose func()) {
			lose()
			d, first, err := s.Decide(t.Context(), effectonce.Decision{Tenant: "acme", Run: "r", Step: "s"})
			if err != nil || !first || d.Seq != 1 {
				t.Errorf("first %v, seq %d, %v", first, d.Seq, err)
			}
		}},
		{"messages", func(t *testing.T, s *postgres.Store, lose func()) {
			lose()
			if err := s.Append(t.Context(), effectonce.Message{Subject: "a"}, effectonce.Message{Subject: "a"}); err != nil {
				t.Fatal(err)
			}
			lose()
			q, messages, err := s.TakeQueue(t.Context(), time.Minute, 10)
			if err != nil || len(messages) != 2 {
				t.Fatalf("%d messages, %v", len(messages), err)
			}
			lose()
			if err := s.ReturnQueue(t.Context(), q, effectonce.Relayed{Delivered: 1, Reason: "503", Park: true}); err != nil {
				t.Error(err)
			}
			lose()
			if err := s.Unpark(t.Context(), q.Tenant, q.Subject, messages[1].ID, true); err != nil {
				t.Error(err)
			}
			if page, err := s.Queues(t.Context(), effectonce.QueueFilter{}); err != nil || len(page.Queues) != 0 {
				t.Errorf("queues %+v, %v", page.Queues, err)
			}
		}},
	} {
		for name, cut := range map[string][2]int64{"before": {1, 0}, "after": {0, 1}, "several times": {2, 1}} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				t.Parallel()
				direct := pgtest.URL(t)
				proxy, through := throughCutter(t, direct)
				s := open(t, through, postgres.Options{})
				c.call(t, s, func() { proxy.on([]byte("COMMIT"), cut[0], cut[1]) })
				checkAudit(t, direct)
			})
		}
	}
}

func wantUsed(t *testing.T, s *postgres.Store, want int64) {
	t.Helper()
	uses, err := s.Limits(t.Context(), effectonce.LimitFilter{})
	if want == 0 && err == nil && len(uses) == 0 {
		return // what nothing is taken of is not listed
	}
	if err != nil || len(uses) != 1 || uses[0].Used != want || int64(len(uses[0].Holders)) != want {
		t.Errorf("limits %+v, %v; want %d taken", uses, err, want)
	}
}

// While a writer does not know what became of its write, somebody else is faster: the claim is the other one's alone.
func TestLostClaimOfAnotherIsNotOnesOwn(t *testing.T) {
	t.Parallel()
	direct := pgtest.URL(t)
	proxy, through := throughCutter(t, direct)
	s, other := open(t, through, postgres.Options{}), open(t, direct, postgres.Options{})
	op := operation("op")
	if _, created, err := other.Create(t.Context(), recordedAs(op, "w")); err != nil || !created {
		t.Fatal(created, err)
	}
	// The same owner: the name proves nothing.
	proxy.on(op.Key[:], 1, 1)
	got, created, err := s.Create(t.Context(), recordedAs(op, "w"))
	if err != nil || created || got.Version != 1 {
		t.Errorf("created %v, version %d, %v", created, got.Version, err)
	}
	end := next(t, got, succeeded(got))
	if _, err := other.Apply(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	proxy.on(op.Key[:], 1, 1)
	if _, err := s.Apply(t.Context(), end); effectonce.CodeOf(err) != effectonce.CodeStaleVersion {
		t.Errorf("a record that another one made: %v", err)
	}
	checkAudit(t, direct)
}

// Reads find a connection that works.
func TestReadsSurviveDeadConnections(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := open(t, url, postgres.Options{})
	op, _, err := s.Create(t.Context(), recorded("a"))
	if err != nil {
		t.Fatal(err)
	}
	c := plain(t, url)
	for range 3 {
		atOnce(8, func(int) { load(t, s, op.Key) })
		count(t, c, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		atOnce(8, func(int) { load(t, s, op.Key) })
		if _, err := s.Extend(t.Context(), op.Key, op.Token, time.Minute, time.Hour); err != nil {
			t.Error(err)
		}
	}
}
