package postgres

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// Values travel in PostgreSQL's binary format, written and read here: a statement carries about seventy arrays, one per column,
// and this way a value costs a copy.

// sqlType is a column's type with the numbers that the protocol has for it.
type sqlType struct {
	name string
	oid  uint32
}

var (
	typeInt   = sqlType{"bigint", 20}
	typeBool  = sqlType{"boolean", 16}
	typeText  = sqlType{"text", 25}
	typeBytes = sqlType{"bytea", 17}
)

// column is a column by its name.
type column struct {
	name string
	sqlType
}

func columns(t sqlType, names string) []column {
	var all []column
	for _, name := range strings.Fields(names) {
		all = append(all, column{name, t})
	}
	return all
}

func names(cols []column, prefix string) string {
	all := make([]string, len(cols))
	for i, c := range cols {
		all[i] = prefix + c.name
	}
	return strings.Join(all, ", ")
}

// arrays collects rows, column by column. A column is sent as an array with an element per row; or, if all rows have the same value,
// as that value alone beside an empty array. Most columns of most batches are of the second kind, which costs the server a tenth.
// The first column is always an array: it says how many rows there are.
type arrays struct {
	cols []column
	bufs [][]byte
	null []bool
	// first is where the first row's element ends; varies says that another row has another one.
	first  []int
	varies []bool
	at     int
	rows   int
}

// arrayHeader is dimensions, flag for nulls, element type, length, lower bound; emptyHeader that of an array without elements.
const (
	arrayHeader = 20
	emptyHeader = 12
)

func newArrays(cols []column, rows int) *arrays {
	a := &arrays{cols: cols, bufs: make([][]byte, len(cols)), null: make([]bool, len(cols)), first: make([]int, len(cols)), varies: make([]bool, len(cols))}
	for i := range a.bufs {
		a.bufs[i] = make([]byte, arrayHeader, arrayHeader+12*min(rows, 16))
	}
	return a
}

// endRow ends a row, which has a value for each column.
func (a *arrays) endRow() {
	if a.at != len(a.cols) {
		panic(fmt.Sprintf("a row has %d values for %d columns", a.at, len(a.cols)))
	}
	a.at = 0
	a.rows++
}

// params are the arrays, and then for each column the value that stands for what its array lacks.
func (a *arrays) params() [][]byte {
	all := make([][]byte, 2*len(a.cols))
	for i, b := range a.bufs {
		if i > 0 && !a.varies[i] {
			if !a.null[i] {
				// Without its length; not nil, which would be NULL, where it is empty.
				all[len(a.cols)+i] = b[arrayHeader+4 : a.first[i]]
			}
			binary.BigEndian.PutUint32(b, 0)
			binary.BigEndian.PutUint32(b[4:], 0)
			binary.BigEndian.PutUint32(b[8:], a.cols[i].oid)
			all[i] = b[:emptyHeader]
			continue
		}
		binary.BigEndian.PutUint32(b, 1)
		if a.null[i] {
			binary.BigEndian.PutUint32(b[4:], 1)
		}
		binary.BigEndian.PutUint32(b[8:], a.cols[i].oid)
		binary.BigEndian.PutUint32(b[12:], uint32(a.rows))
		binary.BigEndian.PutUint32(b[16:], 1)
		all[i] = b
	}
	return all
}

// plain are the values of the only row, as drivers of any kind take them.
func (a *arrays) plain() []any {
	all := make([]any, len(a.cols))
	for i, c := range a.cols {
		if a.null[i] {
			continue
		}
		b := a.bufs[i][arrayHeader+4 : a.first[i]]
		switch c.sqlType {
		case typeInt:
			all[i] = int64(binary.BigEndian.Uint64(b))
		case typeBool:
			all[i] = b[0] == 1
		case typeText:
			all[i] = string(b)
		default:
			all[i] = append([]byte{}, b...)
		}
	}
	return all
}

// end ends the element that began at the column's length before, and goes on to the next column. An element like the first one's
// is not kept as long as all are.
func (a *arrays) end(before int) {
	b := a.bufs[a.at]
	switch {
	case a.rows == 0:
		a.first[a.at] = len(b)
	case a.varies[a.at] || a.at == 0:
	case bytes.Equal(b[before:], b[arrayHeader:a.first[a.at]]):
		a.bufs[a.at] = b[:before]
	default:
		// Now the elements that were left out count.
		a.varies[a.at] = true
		element := bytes.Clone(b[before:])
		b = b[:a.first[a.at]]
		for range a.rows - 1 {
			b = append(b, b[arrayHeader:a.first[a.at]]...)
		}
		a.bufs[a.at] = append(b, element...)
	}
	a.at++
}

func (a *arrays) null1() {
	before := len(a.bufs[a.at])
	a.bufs[a.at] = binary.BigEndian.AppendUint32(a.bufs[a.at], 0xffffffff)
	a.null[a.at] = true
	a.end(before)
}

func (a *arrays) integer(v int64) {
	before := len(a.bufs[a.at])
	b := binary.BigEndian.AppendUint32(a.bufs[a.at], 8)
	a.bufs[a.at] = binary.BigEndian.AppendUint64(b, uint64(v))
	a.end(before)
}

func (a *arrays) maybe(v *int64) {
	if v == nil {
		a.null1()
		return
	}
	a.integer(*v)
}

func (a *arrays) flag(v bool) {
	before := len(a.bufs[a.at])
	b := binary.BigEndian.AppendUint32(a.bufs[a.at], 1)
	if v {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	a.bufs[a.at] = b
	a.end(before)
}

// word is text that is never NULL.
func (a *arrays) word(s string) {
	s = storable(s)
	before := len(a.bufs[a.at])
	b := binary.BigEndian.AppendUint32(a.bufs[a.at], uint32(len(s)))
	a.bufs[a.at] = append(b, s...)
	a.end(before)
}

// text is NULL where it is empty; so are blob and hash.
func (a *arrays) text(s string) {
	if s == "" {
		a.null1()
		return
	}
	a.word(s)
}

func (a *arrays) blob(v []byte) {
	if len(v) == 0 {
		a.null1()
		return
	}
	before := len(a.bufs[a.at])
	b := binary.BigEndian.AppendUint32(a.bufs[a.at], uint32(len(v)))
	a.bufs[a.at] = append(b, v...)
	a.end(before)
}

func hash[H effectonce.Key | canon.Digest](a *arrays, h H) {
	b := [32]byte(h)
	if b == [32]byte{} {
		a.null1()
		return
	}
	a.blob(b[:])
}

func int8Bytes(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

// foreign starts text that PostgreSQL cannot hold as it is.
const foreign = "\x01"

// storable is s, or its bytes in hex behind a mark where PostgreSQL would refuse s.
func storable(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 && !strings.HasPrefix(s, foreign) {
		return s
	}
	return foreign + hex.EncodeToString([]byte(s))
}

func original(s string) (string, error) {
	if !strings.HasPrefix(s, foreign) {
		return s, nil
	}
	b, err := hex.DecodeString(s[len(foreign):])
	return string(b), err
}

// scanner reads a row's columns one after the other; after an error it reads zero values.
type scanner struct {
	row [][]byte
	i   int
	err error
}

func (r *scanner) next() []byte {
	if r.err != nil {
		return nil
	}
	b := r.row[r.i]
	r.i++
	return b
}

// skip passes over n columns; null says that the next one is NULL.
func (r *scanner) skip(n int)  { r.i += n }
func (r *scanner) null() bool  { return r.err == nil && r.row[r.i] == nil }
func (r *scanner) flag() bool  { b := r.next(); return len(b) == 1 && b[0] == 1 }
func (r *scanner) fail(n int)  { r.err = fmt.Errorf("column %d holds %d bytes", r.i, n) }
func (r *scanner) number() int { return int(r.integer()) }

func (r *scanner) integer() int64 {
	b := r.next()
	if b == nil {
		return 0
	}
	if len(b) != 8 {
		r.fail(len(b))
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func (r *scanner) text() string {
	s, err := original(string(r.next()))
	if err != nil {
		r.err = err
	}
	return s
}

// blob is a copy: the row's memory is used again.
func (r *scanner) blob() []byte {
	b := r.next()
	if len(b) == 0 {
		return nil
	}
	return append([]byte(nil), b...)
}

func (r *scanner) hash() (h canon.Digest) {
	b := r.next()
	if len(b) != 0 && len(b) != len(h) {
		r.fail(len(b))
	}
	copy(h[:], b)
	return h
}

// keys reads keys that were written one behind the other.
func (r *scanner) keys() []effectonce.Key {
	b := r.next()
	var keys []effectonce.Key
	for ; len(b) >= len(effectonce.Key{}); b = b[len(effectonce.Key{}):] {
		keys = append(keys, effectonce.Key(b[:len(effectonce.Key{})]))
	}
	return keys
}

func (r *scanner) at() time.Time {
	if r.null() {
		r.i++
		return time.Time{}
	}
	us := r.integer()
	if r.err != nil {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
