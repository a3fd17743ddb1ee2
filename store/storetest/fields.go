package storetest

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectonce/effectonce"
)

// comparing says that times are equal if they are the same moment, and empty slices are nil ones.
var comparing = cmp.Options{
	cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) }),
	cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) }),
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got, comparing); d != "" {
		t.Errorf("%s (- want, + got):\n%s", what, d)
	}
}

// same compares two operations but for the moment they were read.
func same(t *testing.T, a, b effectonce.Operation) bool {
	t.Helper()
	a.AsOf, b.AsOf = time.Time{}, time.Time{}
	d := cmp.Diff(a, b, comparing)
	if d != "" {
		t.Log(d)
	}
	return d == ""
}

// testFields proves that every field of an operation and of an event comes back as it was stored. The examples are filled by
// reflection, so that a field of a later day is covered too.
func testFields(t *testing.T, open Open) {
	t.Run("of an operation, written by create", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		for _, seed := range []int64{1, 2} {
			want := filledOperation(seed)
			got, created, err := f.Create(t.Context(), effectonce.Transition{To: want, Event: filledEvent(want, seed), At: f.clock.Now()})
			if err != nil || !created {
				t.Fatalf("created %v, %v", created, err)
			}
			equal(t, "created", got, asOf(want, f.clock.Now()))
			equal(t, "loaded", f.load(want.Key), asOf(want, f.clock.Now()))
		}
	})

	t.Run("of an operation, written by apply", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		want := filledOperation(1)
		from := want
		// A second row's life in the first one's identity.
		life := filledOperation(2)
		from.Version = 1
		if _, _, err := f.Create(t.Context(), effectonce.Transition{To: from, Event: effectonce.Event{Seq: 1}, At: f.clock.Now()}); err != nil {
			t.Fatal(err)
		}
		copyLife(&want, life)
		want.DueAt = life.DueAt
		got, err := f.Apply(t.Context(), effectonce.Transition{From: from, To: want, Event: filledEvent(want, 2), At: f.clock.Now()})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "applied", got, asOf(want, f.clock.Now()))
		equal(t, "loaded", f.load(want.Key), asOf(want, f.clock.Now()))
	})

	t.Run("of an operation that has none", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		want := effectonce.Operation{Key: effectonce.Key{9}, State: effectonce.StatePending, Version: 1}
		if _, _, err := f.Create(t.Context(), effectonce.Transition{To: want, Event: effectonce.Event{Seq: 1}, At: f.clock.Now()}); err != nil {
			t.Fatal(err)
		}
		equal(t, "loaded", f.load(want.Key), asOf(want, f.clock.Now()))
	})

	t.Run("of an event", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := filledOperation(1)
		want := filledEvent(op, 1)
		if _, _, err := f.Create(t.Context(), effectonce.Transition{To: op, Event: want, At: f.clock.Now()}); err != nil {
			t.Fatal(err)
		}
		got, err := f.Events(t.Context(), op.Key)
		if err != nil {
			t.Fatal(err)
		}
		want.At = f.clock.Now()
		equal(t, "events", got, []effectonce.Event{want})
	})

	t.Run("where arguments or request are the business arguments, or empty, or others", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		for i, c := range [][3]string{{"{}", "{}", "{}"}, {"{}", "{}", ""}, {"{}", "", "{}"}, {"{}", `{"a":1}`, `POST`}, {"", "", ""}, {"", "x", "y"}} {
			op := intent(numbered("bytes", i))
			op.Business, op.Arguments, op.Request = []byte(c[0]), []byte(c[1]), []byte(c[2])
			f.create(op, true)
			got := f.load(op.Key)
			if string(got.Business) != c[0] || string(got.Arguments) != c[1] || string(got.Request) != c[2] {
				t.Errorf("%q came back as %q, %q, %q", c, got.Business, got.Arguments, got.Request)
			}
		}
	})
}

func asOf(op effectonce.Operation, now time.Time) effectonce.Operation {
	op.AsOf = now
	return op
}

// filledOperation sets every field to a value of its own, apart from the enumerations that the store decides by.
func filledOperation(seed int64) effectonce.Operation {
	var op effectonce.Operation
	n := seed * 1000
	fill(reflect.ValueOf(&op).Elem(), "operation", &n)
	op.Scope, op.State = effectonce.ScopeStep, effectonce.StateInProgress
	// The alarm of a review and the twin alert have tests of their own.
	op.Terms.Twins = effectonce.TwinAllow
	// An identity that has ended is not recorded (S13.2).
	op.ForgetAt = epoch.Add(time.Duration(n) * time.Hour)
	op.AsOf = time.Time{}
	return op
}

func filledEvent(op effectonce.Operation, seed int64) effectonce.Event {
	var e effectonce.Event
	n := seed * 5000
	fill(reflect.ValueOf(&e).Elem(), "event", &n)
	e.Key, e.Seq = op.Key, op.Version
	return e
}

// copyLife copies what transitions change.
func copyLife(to *effectonce.Operation, from effectonce.Operation) {
	identity := map[string]bool{
		"Key": true, "Tenant": true, "Tool": true, "Scope": true, "Run": true, "Step": true, "IntentID": true, "Revision": true,
		"Supersedes": true, "SupersedeReason": true, "Actor": true, "Fingerprint": true, "Business": true, "Arguments": true,
		"Request": true, "RequestScope": true, "Resource": true, "Twin": true, "TwinOf": true, "Terms": true, "Stamp": true,
		"CreatedAt": true, "Token": true, "Compensates": true, "Aliases": true, "Limits": true, "ForgetAt": true,
	}
	dst, src := reflect.ValueOf(to).Elem(), reflect.ValueOf(from)
	for i := range dst.NumField() {
		if !identity[dst.Type().Field(i).Name] {
			dst.Field(i).Set(src.Field(i))
		}
	}
}

// fill sets v to something that is not its zero value and differs from everything else that was filled.
func fill(v reflect.Value, path string, n *int64) {
	*n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(epoch.Add(-time.Duration(*n) * 1001 * time.Microsecond)))
		return
	case []byte:
		v.SetBytes(fmt.Appendf(nil, `{"%s":%d}`, path, *n))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("%s %d", strings.ToLower(path), *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(*n)
	case reflect.Uint8:
		v.SetUint(uint64(*n%255) + 1)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), path, n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), path, n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path, n)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), path+"."+v.Type().Field(i).Name, n)
		}
	default:
		panic(fmt.Sprintf("%s has a kind that the example cannot fill: %s", path, v.Kind()))
	}
}

func testValues(t *testing.T, open Open) {
	t.Run("large ones", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		big := bytes.Repeat([]byte("0123456789abcdef"), effectonce.ResultBytesMax/16)
		op := intent("big")
		op.Arguments = big
		op = f.create(op, true)
		end := succeeded(op)
		end.End.Result = big
		op = f.apply(op, end)
		if got := f.load(op.Key); !bytes.Equal(got.Result, big) || !bytes.Equal(got.Arguments, big) {
			t.Errorf("%d and %d bytes came back", len(got.Result), len(got.Arguments))
		}
	})

	t.Run("any text and any bytes", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		for i, s := range []string{"Zürich – 東京 🚀", "a\u0301 against á", "a\x00b", "\x00", "'; DROP TABLE operations; --", "\u202eabc", "%_\\", "\xff\xfe"} {
			op := intent(numbered("text", i))
			op.Run, op.Step, op.SupersedeReason, op.Resource = s, s, s, s
			op.Request = []byte(s)
			op = f.create(op, true)
			end := succeeded(op)
			end.End.Reference, end.End.Result = s, []byte(s)
			op = f.apply(op, end)
			got := f.load(op.Key)
			if !same(t, got, op) || got.Run != s || got.Reference != s || string(got.Result) != s || string(got.Request) != s {
				t.Errorf("%q did not come back: %q, %q", s, got.Run, got.Result)
			}
		}
	})
}
