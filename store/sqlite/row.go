package sqlite

import (
	"bytes"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// The columns of an operation in two groups, each in the order of its fields below: identity is written once, life with every
// transition.
const (
	identityColumns = `key, tenant, tool, scope, run, step, intent_id, revision, supersedes, supersede_reason, actor, fingerprint,
		request_scope, resource, twin, twin_of, terms, stamp, created_at, same, business, arguments, request,
		compensates, aliases, limits, forget_at`
	lifeColumns = `version, token, state, due_at, hold, reason, owner, downstream_key, epoch, attempt, spent, open, exposed, parked,
		stored_error, looks, opened_at, started_at, first_sent_at, last_sent_at, taken_at, retry_at, settled_at,
		last_verdict, proof, reference, alarm, permission, evidence, failure, result_digest, result_omitted, result,
		purge_at, purged_at`
)

// How many columns each group has.
var (
	identityCount = strings.Count(identityColumns, ",") + 1
	lifeCount     = strings.Count(lifeColumns, ",") + 1
)

// placeholders is "?,?,?" for n values.
func placeholders(n int) string { return strings.Repeat("?,", n-1) + "?" }

// The bits of the column same.
const (
	sameArguments = 1
	sameRequest   = 2
)

func identityValues(op *effectonce.Operation, terms int64) ([]driver.Value, error) {
	limits, err := list(op.Limits)
	if err != nil {
		return nil, err
	}
	var same int64
	arguments, request := op.Arguments, op.Request
	if len(arguments) > 0 && bytes.Equal(arguments, op.Business) {
		same, arguments = same|sameArguments, nil
	}
	if len(request) > 0 && bytes.Equal(request, op.Business) {
		same, request = same|sameRequest, nil
	}
	return []driver.Value{
		op.Key[:], op.Tenant, op.Tool, string(op.Scope), text(op.Run), text(op.Step), op.IntentID, int64(op.Revision),
		hash(op.Supersedes), text(op.SupersedeReason), text(op.Actor), hash(op.Fingerprint),
		text(op.RequestScope), text(op.Resource), hash(op.Twin), hash(op.TwinOf), terms, text(op.Stamp), at(op.CreatedAt),
		same, blob(op.Business), blob(arguments), blob(request),
		hash(op.Compensates), keys(op.Aliases), limits, at(op.ForgetAt),
	}, nil
}

func lifeValues(op *effectonce.Operation) ([]driver.Value, error) {
	permission, err := document(op.Permission)
	if err != nil {
		return nil, err
	}
	evidence, err := document(op.Evidence)
	if err != nil {
		return nil, err
	}
	failure, err := document(op.Failure)
	if err != nil {
		return nil, err
	}
	// More capacity for the arguments of a WHERE.
	return append(make([]driver.Value, 0, identityCount+lifeCount+2),
		op.Version, op.Token, string(op.State), at(op.DueAt), text(string(op.Hold)), text(op.Reason), text(op.Owner),
		text(op.DownstreamKey), int64(op.Epoch), int64(op.Attempt), int64(op.Spent), flag(op.Open), flag(op.Exposed), flag(op.Parked),
		flag(op.StoredError), int64(op.Looks), at(op.OpenedAt), at(op.StartedAt), at(op.FirstSentAt), at(op.LastSentAt),
		at(op.TakenAt), at(op.RetryAt), at(op.SettledAt),
		text(string(op.LastVerdict)), text(string(op.Proof)), text(op.Reference), text(op.Alarm), permission, evidence, failure,
		hash(op.ResultDigest), text(op.ResultOmitted), blob(op.Result),
		at(op.PurgeAt), at(op.PurgedAt),
	), nil
}

// scanOperation reads a row of identityColumns and lifeColumns; the terms are known by their id only.
func scanOperation(row []driver.Value) (op effectonce.Operation, terms int64, err error) {
	r := scanner{row: row}
	op.Key = effectonce.Key(r.hash())
	op.Tenant, op.Tool, op.Scope, op.Run, op.Step = r.text(), r.text(), effectonce.Scope(r.text()), r.text(), r.text()
	op.IntentID, op.Revision = r.text(), int(r.integer())
	op.Supersedes, op.SupersedeReason, op.Actor = effectonce.Key(r.hash()), r.text(), r.text()
	op.Fingerprint, op.RequestScope, op.Resource = r.hash(), r.text(), r.text()
	op.Twin, op.TwinOf = r.hash(), effectonce.Key(r.hash())
	terms = r.integer()
	op.Stamp, op.CreatedAt = r.text(), r.at()
	same := r.integer()
	op.Business, op.Arguments, op.Request = r.blob(), r.blob(), r.blob()
	if same&sameArguments != 0 {
		op.Arguments = op.Business
	}
	if same&sameRequest != 0 {
		op.Request = op.Business
	}
	op.Compensates, op.Aliases, op.Limits, op.ForgetAt = effectonce.Key(r.hash()), r.keys(), scanList[effectonce.Limit](&r), r.at()

	op.Version, op.Token, op.State, op.DueAt = r.integer(), r.integer(), effectonce.State(r.text()), r.at()
	op.Hold, op.Reason, op.Owner, op.DownstreamKey = effectonce.Hold(r.text()), r.text(), r.text(), r.text()
	op.Epoch, op.Attempt, op.Spent = int(r.integer()), int(r.integer()), int(r.integer())
	op.Open, op.Exposed, op.Parked, op.StoredError, op.Looks = r.flag(), r.flag(), r.flag(), r.flag(), int(r.integer())
	op.OpenedAt, op.StartedAt, op.FirstSentAt, op.LastSentAt = r.at(), r.at(), r.at(), r.at()
	op.TakenAt, op.RetryAt, op.SettledAt = r.at(), r.at(), r.at()
	op.LastVerdict, op.Proof = effectonce.Verdict(r.text()), effectonce.Proof(r.text())
	op.Reference, op.Alarm = r.text(), r.text()
	op.Permission = scanDocument[effectonce.Permission](&r)
	op.Evidence = scanDocument[effectonce.Evidence](&r)
	op.Failure = scanDocument[effectonce.Failure](&r)
	op.ResultDigest, op.ResultOmitted, op.Result = r.hash(), r.text(), r.blob()
	op.PurgeAt, op.PurgedAt = r.at(), r.at()
	return op, terms, r.err
}

// The values of columns: zero and empty are NULL.

func text(s string) driver.Value {
	if s == "" {
		return nil
	}
	return s
}

func blob(b []byte) driver.Value {
	if len(b) == 0 {
		return nil
	}
	return b
}

func hash[H effectonce.Key | canon.Digest](h H) driver.Value {
	b := [32]byte(h)
	if b == [32]byte{} {
		return nil
	}
	return b[:]
}

func at(t time.Time) driver.Value {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func flag(b bool) driver.Value {
	if b {
		return int64(1)
	}
	return int64(0)
}

// document is JSON for what is rarely there.
func document[T any](v *T) (driver.Value, error) {
	if v == nil {
		return nil, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, &effectonce.Error{Code: effectonce.CodeInternal, Detail: fmt.Sprintf("%T has no JSON form", v), Cause: err}
	}
	return string(b), nil
}

// list is JSON for a list that is mostly empty.
func list[T any](all []T) (driver.Value, error) {
	if len(all) == 0 {
		return nil, nil
	}
	return document(&all)
}

func keys(all []effectonce.Key) driver.Value {
	if len(all) == 0 {
		return nil
	}
	b := make([]byte, 0, len(all)*len(effectonce.Key{}))
	for _, k := range all {
		b = append(b, k[:]...)
	}
	return b
}

// scanner reads a row's columns one after the other; after an error it reads zero values.
type scanner struct {
	row []driver.Value
	i   int
	err error
}

func next[T any](r *scanner) (v T) {
	if r.err != nil {
		return v
	}
	got := r.row[r.i]
	r.i++
	if got == nil {
		return v
	}
	v, ok := got.(T)
	if !ok {
		r.err = fmt.Errorf("column %d holds a %T", r.i, got)
	}
	return v
}

func (r *scanner) integer() int64 { return next[int64](r) }
func (r *scanner) flag() bool     { return next[int64](r) != 0 }

// text and blob take either, since the caller's driver may not tell them apart.

func (r *scanner) text() string {
	if r.err == nil {
		if b, ok := r.row[r.i].([]byte); ok {
			r.i++
			return string(b)
		}
	}
	return next[string](r)
}

func (r *scanner) blob() []byte {
	if r.err == nil {
		if s, ok := r.row[r.i].(string); ok {
			r.i++
			return []byte(s)
		}
	}
	return next[[]byte](r)
}

func (r *scanner) hash() (h canon.Digest) {
	b := r.blob()
	if len(b) != 0 && len(b) != len(h) && r.err == nil {
		r.err = fmt.Errorf("column %d holds %d bytes", r.i, len(b))
	}
	copy(h[:], b)
	return h
}

func (r *scanner) at() time.Time {
	if r.err == nil && r.row[r.i] == nil {
		r.i++
		return time.Time{}
	}
	us := next[int64](r)
	if r.err != nil {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func (r *scanner) keys() (all []effectonce.Key) {
	b := r.blob()
	if r.err == nil && len(b)%len(effectonce.Key{}) != 0 {
		r.err = fmt.Errorf("column %d holds %d bytes", r.i, len(b))
	}
	for ; r.err == nil && len(b) > 0; b = b[len(effectonce.Key{}):] {
		all = append(all, effectonce.Key(b[:len(effectonce.Key{})]))
	}
	return all
}

func scanList[T any](r *scanner) []T {
	all := scanDocument[[]T](r)
	if all == nil {
		return nil
	}
	return *all
}

func scanDocument[T any](r *scanner) *T {
	s := r.text()
	if s == "" {
		return nil
	}
	v := new(T)
	if err := json.Unmarshal([]byte(s), v); err != nil && r.err == nil {
		r.err = err
	}
	return v
}
