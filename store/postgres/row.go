package postgres

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/effectonce/effectonce"
)

// The columns of an operation in three groups, each in the order in which its values are written and read below: identity is
// written once, life with every transition; moments are the part of life that the database stamps.
var (
	identityColumns = slices.Concat(
		columns(typeBytes, "key"),
		columns(typeText, "tenant tool scope run step intent_id"),
		columns(typeInt, "revision"),
		columns(typeBytes, "supersedes"),
		columns(typeText, "supersede_reason actor"),
		columns(typeBytes, "fingerprint"),
		columns(typeText, "request_scope resource"),
		columns(typeBytes, "twin twin_of"),
		columns(typeInt, "terms"),
		columns(typeText, "stamp"),
		columns(typeInt, "same"),
		columns(typeBytes, "business arguments request"),
	)
	lifeColumns = slices.Concat(
		columns(typeInt, "version token"),
		columns(typeText, "state hold reason owner downstream_key"),
		columns(typeInt, "epoch attempt spent looks"),
		columns(typeBool, "open exposed parked stored_error"),
		columns(typeText, "last_verdict proof reference alarm permission evidence failure"),
		columns(typeBytes, "result_digest"),
		columns(typeText, "result_omitted"),
		columns(typeBytes, "result"),
	)
	// As in times: bit i of the column moved belongs to the i-th.
	momentColumns = columns(typeInt, "due_at opened_at started_at first_sent_at last_sent_at taken_at retry_at settled_at created_at")
	// rareColumns are the part of identity that few operations have: those that are recorded carefully.
	rareColumns = slices.Concat(columns(typeBytes, "compensates aliases"), columns(typeText, "limits"), columns(typeInt, "forget_at"))
	// keptColumns are the moments of retention, which follow those of momentColumns in times.
	keptColumns = columns(typeInt, "purge_at purged_at")
	// operation and at are set by the statement.
	eventColumns = slices.Concat(
		columns(typeInt, "seq token attempt epoch line write_id"),
		columns(typeBool, "sends risk"),
		columns(typeText, "kind from_state to_state actor verdict found resolution reference reason"),
	)
)

// operationColumns are what a whole operation is read from, changed_at first.
var operationColumns = slices.Concat(columns(typeInt, "changed_at"), identityColumns, lifeColumns, momentColumns, keptColumns, rareColumns, columns(typeInt, "alias_of"))

// selectColumns are operationColumns of the table o.
var selectColumns = names(operationColumns, "o.")

// The bits of the column same.
const (
	sameArguments = 1
	sameRequest   = 2
)

func (a *arrays) identity(op *effectonce.Operation, terms int64) {
	var same int64
	arguments, request := op.Arguments, op.Request
	if len(arguments) > 0 && bytes.Equal(arguments, op.Business) {
		same, arguments = same|sameArguments, nil
	}
	if len(request) > 0 && bytes.Equal(request, op.Business) {
		same, request = same|sameRequest, nil
	}
	a.blob(op.Key[:])
	a.word(op.Tenant)
	a.word(op.Tool)
	a.word(string(op.Scope))
	a.text(op.Run)
	a.text(op.Step)
	a.word(op.IntentID)
	a.integer(int64(op.Revision))
	hash(a, op.Supersedes)
	a.text(op.SupersedeReason)
	a.text(op.Actor)
	hash(a, op.Fingerprint)
	a.text(op.RequestScope)
	a.text(op.Resource)
	hash(a, op.Twin)
	hash(a, op.TwinOf)
	a.integer(terms)
	a.text(op.Stamp)
	a.integer(same)
	a.blob(op.Business)
	a.blob(arguments)
	a.blob(request)
}

func (a *arrays) life(op *effectonce.Operation) error {
	a.integer(op.Version)
	a.integer(op.Token)
	a.word(string(op.State))
	a.text(string(op.Hold))
	a.text(op.Reason)
	a.text(op.Owner)
	a.text(op.DownstreamKey)
	a.integer(int64(op.Epoch))
	a.integer(int64(op.Attempt))
	a.integer(int64(op.Spent))
	a.integer(int64(op.Looks))
	a.flag(op.Open)
	a.flag(op.Exposed)
	a.flag(op.Parked)
	a.flag(op.StoredError)
	a.text(string(op.LastVerdict))
	a.text(string(op.Proof))
	a.text(op.Reference)
	a.text(op.Alarm)
	if err := document(a, op.Permission); err != nil {
		return err
	}
	if err := document(a, op.Evidence); err != nil {
		return err
	}
	if err := document(a, op.Failure); err != nil {
		return err
	}
	hash(a, op.ResultDigest)
	a.text(op.ResultOmitted)
	a.blob(op.Result)
	return nil
}

// moments are the times, and which of them are distances from the moment of the write. kept are those of retention.
func (a *arrays) moments(t effectonce.Transition) (kept [timesCount - momentsCount]*int64) {
	at, moved := relative(t)
	for _, us := range at[:momentsCount] {
		a.maybe(us)
	}
	a.integer(moved)
	return [timesCount - momentsCount]*int64(at[momentsCount:])
}

// rare writes rareColumns.
func (a *arrays) rare(op *effectonce.Operation) error {
	hash(a, op.Compensates)
	a.blob(keysBytes(op.Aliases))
	limits := &op.Limits
	if len(op.Limits) == 0 {
		limits = nil
	}
	if err := document(a, limits); err != nil {
		return err
	}
	a.maybe(micros(op.ForgetAt))
	return nil
}

// micros is a time as it is stored.
func micros(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	us := effectonce.StoredTime(t).UnixMicro()
	return &us
}

func keysBytes(keys []effectonce.Key) []byte {
	var b []byte
	for _, k := range keys {
		b = append(b, k[:]...)
	}
	return b
}

func (a *arrays) event(e *effectonce.Event, writeID int64) {
	a.integer(e.Seq)
	a.integer(e.Token)
	a.integer(int64(e.Attempt))
	a.integer(int64(e.Epoch))
	a.integer(int64(e.Line))
	a.integer(writeID)
	a.flag(e.Sends)
	a.flag(e.Risk)
	a.word(string(e.Kind))
	a.text(string(e.From))
	a.word(string(e.To))
	a.text(e.Actor)
	a.text(string(e.Verdict))
	a.text(string(e.Found))
	a.text(string(e.Resolution))
	a.text(e.Reference)
	a.text(e.Reason)
}

// stored is a row as it was read: its terms are known by their id only, changed is when the last transition was. aliasOf says that it
// is only a key, of the operation with that id.
type stored struct {
	op      effectonce.Operation
	terms   int64
	changed int64
	aliasOf int64
}

// scanOperation reads operationColumns.
func scanOperation(r *scanner) stored {
	row := stored{changed: r.integer()}
	op := &row.op
	op.Key = effectonce.Key(r.hash())
	op.Tenant, op.Tool, op.Scope, op.Run, op.Step, op.IntentID = r.text(), r.text(), effectonce.Scope(r.text()), r.text(), r.text(), r.text()
	op.Revision = r.number()
	op.Supersedes, op.SupersedeReason, op.Actor = effectonce.Key(r.hash()), r.text(), r.text()
	op.Fingerprint, op.RequestScope, op.Resource = r.hash(), r.text(), r.text()
	op.Twin, op.TwinOf = r.hash(), effectonce.Key(r.hash())
	row.terms = r.integer()
	op.Stamp = r.text()
	same := r.integer()
	op.Business, op.Arguments, op.Request = r.blob(), r.blob(), r.blob()
	if same&sameArguments != 0 {
		op.Arguments = op.Business
	}
	if same&sameRequest != 0 {
		op.Request = op.Business
	}

	op.Version, op.Token, op.State, op.Hold = r.integer(), r.integer(), effectonce.State(r.text()), effectonce.Hold(r.text())
	op.Reason, op.Owner, op.DownstreamKey = r.text(), r.text(), r.text()
	op.Epoch, op.Attempt, op.Spent, op.Looks = r.number(), r.number(), r.number(), r.number()
	op.Open, op.Exposed, op.Parked, op.StoredError = r.flag(), r.flag(), r.flag(), r.flag()
	op.LastVerdict, op.Proof = effectonce.Verdict(r.text()), effectonce.Proof(r.text())
	op.Reference, op.Alarm = r.text(), r.text()
	op.Permission = scanDocument[effectonce.Permission](r)
	op.Evidence = scanDocument[effectonce.Evidence](r)
	op.Failure = scanDocument[effectonce.Failure](r)
	op.ResultDigest, op.ResultOmitted, op.Result = r.hash(), r.text(), r.blob()
	for _, at := range times(op) {
		*at = r.at()
	}
	op.Compensates = effectonce.Key(r.hash())
	op.Aliases = r.keys()
	if limits := scanDocument[[]effectonce.Limit](r); limits != nil {
		op.Limits = *limits
	}
	op.ForgetAt = r.at()
	row.aliasOf = r.integer()
	return row
}

// scanEvent reads the operation's key, the moment, and eventColumns.
func scanEvent(r *scanner) effectonce.Event {
	e := effectonce.Event{Key: effectonce.Key(r.hash())}
	e.At = r.at()
	e.Seq, e.Token, e.Attempt, e.Epoch, e.Line = r.integer(), r.integer(), r.number(), r.number(), r.number()
	r.skip(1) // write_id
	e.Sends, e.Risk = r.flag(), r.flag()
	e.Kind, e.From, e.To, e.Actor = effectonce.EventKind(r.text()), effectonce.State(r.text()), effectonce.State(r.text()), r.text()
	e.Verdict, e.Found, e.Resolution = effectonce.Verdict(r.text()), effectonce.Found(r.text()), effectonce.Resolution(r.text())
	e.Reference, e.Reason = r.text(), r.text()
	return e
}

// document is JSON for what is rarely there.
func document[T any](a *arrays, v *T) error {
	if v == nil {
		a.null1()
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return &effectonce.Error{Code: effectonce.CodeInternal, Detail: fmt.Sprintf("%T has no JSON form", v), Cause: err}
	}
	a.word(string(b))
	return nil
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
