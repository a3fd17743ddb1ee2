package postgres

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

// What is sent as rows arrives as these rows, whichever columns are the same in all of them, or NULL in some.
func TestRowsArriveAsTheyWereSent(t *testing.T) {
	t.Parallel()
	s := opened(t, pgtest.URL(t), Options{})
	cols := slices.Concat(columns(typeBytes, "key"), columns(typeInt, "a b"), columns(typeText, "c d"), columns(typeBool, "e"), columns(typeBytes, "f"))
	st := newStatement("WITH c AS (" + clockSQL + "), i AS (" + rowsOf(cols) + ") SELECT " + names(cols, "i.") + " FROM i ORDER BY i.ord")
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "rows")
		rows := newArrays(cols, n)
		var want []string
		for i := range n {
			key := []byte{byte(i)}
			a, b := rapid.Int64Range(0, 2).Draw(t, "a"), rapid.Int64Range(-1, 1).Draw(t, "b")
			c, d := rapid.SampledFrom([]string{"", "x", "\x00", "\x01"}).Draw(t, "c"), rapid.SampledFrom([]string{"", "long text"}).Draw(t, "d")
			e := rapid.Bool().Draw(t, "e")
			f := rapid.SampledFrom([]string{"", "\x00\xff"}).Draw(t, "f")
			rows.blob(key)
			rows.integer(a)
			if b < 0 {
				rows.maybe(nil)
			} else {
				rows.maybe(&b)
			}
			rows.text(c)
			rows.word(d)
			rows.flag(e)
			rows.blob([]byte(f))
			rows.endRow()
			want = append(want, fmt.Sprintf("%x %d %v %d %q %v %q %v %q", key, a, b < 0, max(b, 0), c, c == "", d, e, f))
		}
		var got []string
		err := s.with(t.Context(), func(conn *pgxpool.Conn) error {
			return s.query(t.Context(), conn, st, append(s.clockParams(), rows.params()...), func(r *scanner) error {
				key, a, none, b, empty := r.blob(), r.integer(), r.null(), r.integer(), r.null()
				got = append(got, fmt.Sprintf("%x %d %v %d %q %v %q %v %q", key, a, none, b, r.text(), empty, r.text(), r.flag(), r.blob()))
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	})
}

// Text that PostgreSQL cannot hold comes back as it was, and no two texts are stored as one.
func TestTextIsStorable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 6), func(b []byte) string { return string(b) }),
			rapid.SampledFrom([]string{"", "\x01", "\x0100", "\x00", "00"}))
		a, b := texts.Draw(t, "a"), texts.Draw(t, "b")
		if got, err := original(storable(a)); err != nil || got != a {
			t.Fatalf("%q came back as %q, %v", a, got, err)
		}
		if a != b && storable(a) == storable(b) {
			t.Fatalf("%q and %q are stored as one", a, b)
		}
	})
}
