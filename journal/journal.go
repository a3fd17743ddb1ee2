package journal

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/effectonce/effectonce"
)

// Store is what a journal needs of a store.
type Store interface {
	effectonce.Journal
	// List is [effectonce.Store.List].
	List(ctx context.Context, f effectonce.Filter) (effectonce.Page, error)
}

// Journal gives access to runs. It is safe for concurrent use; any number of them may share a store.
type Journal struct {
	store Store
	guard *effectonce.Guard
}

// New makes a journal over the guard's store. The guard is asked how operations stand, so that its access rules apply (S5.12).
func New(store Store, guard *effectonce.Guard) *Journal { return &Journal{store: store, guard: guard} }

// Run is one run of an agent's workflow. It is safe for concurrent use.
type Run struct {
	journal *Journal
	tenant  string
	name    string
}

// Run names a run of a tenant ([effectonce.DefaultTenant] if empty). Nothing is stored for that.
func (j *Journal) Run(tenant, run string) *Run {
	return &Run{journal: j, tenant: cmp.Or(tenant, effectonce.DefaultTenant), name: run}
}

// Runs returns a page of a tenant's runs ([effectonce.DefaultTenant] if the filter names none), those that began last first.
func (j *Journal) Runs(ctx context.Context, f effectonce.RunFilter) (effectonce.RunPage, error) {
	f.Tenant = cmp.Or(f.Tenant, effectonce.DefaultTenant)
	return j.store.Runs(ctx, f)
}

// Decide returns the step's decision, and what to do now. Only where none is recorded is ask called; what it returns is stored before
// Decide returns, unless somebody else was faster: then everybody gets theirs (S10.1, S10.2). Tenant, run and step of the decision are
// filled in. Its Operation is the key of the call where the caller knows it ([effectonce.Guard.Preview]); without it the operation is
// found by tool and intent id, and of a call that has neither nothing is known.
//
// An error of ask is returned as it is, and nothing is stored. Others: [effectonce.ErrRunFinished] for a step that a finished run does
// not have, [effectonce.ErrInvalid], [effectonce.ErrNotCanonical], [effectonce.ErrForbidden], those of the store. If the answer of
// the store is lost, the decision may be recorded: call Decide again.
func (r *Run) Decide(ctx context.Context, step string, ask func(ctx context.Context) (effectonce.Decision, error)) (Entry, error) {
	h, err := r.History(ctx)
	if err != nil {
		return Entry{}, err
	}
	e, err := h.Step(ctx, step)
	switch {
	case err != nil || e.Decided:
		return e, err
	case e.Do == DoFinished:
		return e, effectonce.RunFinished(r.name, h.last)
	}
	d, err := ask(ctx)
	if err != nil {
		return e, err
	}
	d.Step = step
	return r.Record(ctx, d)
}

// Record stores a decision as [Run.Decide] does, for a caller that has made it already. If the call that it names has been started for
// this very step without a decision, that stays so: nothing is stored, and the entry shows the operation (S10.2).
func (r *Run) Record(ctx context.Context, d effectonce.Decision) (Entry, error) {
	d.Tenant, d.Run = r.tenant, r.name
	if err := d.Check(); err != nil {
		return Entry{}, err
	}
	stored, err := r.journal.store.Decision(ctx, r.tenant, r.name, d.Step)
	if err == nil {
		return r.entry(ctx, stored, false, false)
	}
	if !errors.Is(err, effectonce.ErrNotFound) {
		return Entry{}, err
	}
	e := Entry{Run: r.name, Step: d.Step}
	o, err := r.operationOf(ctx, d)
	if err != nil {
		return e, err
	}
	if op := o.Operation; op.State != "" && op.Run == r.name && op.Step == d.Step {
		// Somebody may have decided and begun since: then there is a decision by now.
		stored, err := r.journal.store.Decision(ctx, r.tenant, r.name, d.Step)
		if err == nil {
			return r.entry(ctx, stored, false, false)
		}
		if !errors.Is(err, effectonce.ErrNotFound) {
			return e, err
		}
		e.Operation = o
		return e.judge(false), nil
	}
	stored, first, err := r.journal.store.Decide(ctx, d)
	if err != nil {
		return e, err
	}
	return r.entry(ctx, stored, first, false)
}

// Step returns a step as it stands, and what to do. A step without a decision is to be decided, or, in a finished run, is none.
func (r *Run) Step(ctx context.Context, step string) (Entry, error) {
	h, err := r.History(ctx)
	if err != nil {
		return Entry{}, err
	}
	return h.Step(ctx, step)
}

// History is what was decided in a run, as it was read at one moment.
type History struct {
	run       *Run
	decisions []effectonce.Decision
	// last is the step that ended the run, empty while it has not ended.
	last   string
	undone bool
}

// History reads the decisions of the run.
func (r *Run) History(ctx context.Context) (History, error) {
	h := History{run: r}
	if err := (effectonce.Decision{Run: r.name, Step: "any"}).Check(); err != nil {
		return h, err
	}
	all, err := r.journal.store.Decisions(ctx, r.tenant, r.name)
	h.decisions = all
	if i := slices.IndexFunc(all, func(d effectonce.Decision) bool { return d.Finish }); i >= 0 {
		h.last = all[i].Step
	}
	if h.undone = h.last == StepUndone; err != nil || h.undone || h.last == "" {
		return h, err
	}
	// It ended before, and may have been undone since.
	at, err := r.undone(ctx)
	h.undone = !at.IsZero()
	return h, err
}

// Begun reports whether anything was decided.
func (h History) Begun() bool { return len(h.decisions) > 0 }

// Finished reports whether a step was recorded as the last one.
func (h History) Finished() bool { return h.last != "" }

// Last is the step that ended the run, empty while it has not ended.
func (h History) Last() string { return h.last }

// Undone reports whether the run was undone.
func (h History) Undone() bool { return h.undone }

// Decided returns the decision of a step, if there is one.
func (h History) Decided(step string) (effectonce.Decision, bool) {
	if i := slices.IndexFunc(h.decisions, func(d effectonce.Decision) bool { return d.Step == step }); i >= 0 {
		return h.decisions[i], true
	}
	return effectonce.Decision{}, false
}

// Step is [Run.Step], of this history.
func (h History) Step(ctx context.Context, step string) (Entry, error) {
	if err := (effectonce.Decision{Run: h.run.name, Step: step}).Check(); err != nil {
		return Entry{}, err
	}
	if d, ok := h.Decided(step); ok {
		return h.run.entry(ctx, d, false, h.Undone())
	}
	return Entry{Run: h.run.name, Step: step}.judge(h.last != ""), nil
}

// entry shows a recorded decision with what became of it.
func (r *Run) entry(ctx context.Context, d effectonce.Decision, first, undone bool) (Entry, error) {
	e := Entry{Run: r.name, Step: d.Step, Decided: true, Decision: d, First: first}
	o, err := r.operationOf(ctx, d)
	e.Operation = o
	if e = e.judge(false); undone && e.Do == DoExecute && !e.Started() {
		e.Do = DoFinished
	}
	return e, err
}

// operationOf is what a decided call has become; its state is empty where it has not started. It is found by its keys only, which costs
// the same however many operations there are (S17).
func (r *Run) operationOf(ctx context.Context, d effectonce.Decision) (effectonce.Outcome, error) {
	keys := []effectonce.Key{d.Operation}
	switch {
	case d.Tool == "" || d.Operation.IsZero() && d.IntentID == "":
		return effectonce.Outcome{}, nil
	case d.Operation.IsZero():
		keys = nil
		for _, scope := range []effectonce.Scope{effectonce.ScopeBusiness, effectonce.ScopeRun, effectonce.ScopeStep} {
			key, err := effectonce.Identity{Tenant: r.tenant, Tool: d.Tool, Scope: scope, Run: r.name, Step: d.Step, IntentID: d.IntentID}.Key()
			if err != nil {
				return effectonce.Outcome{}, err
			}
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		o, err := r.journal.guard.Wait(ctx, key, 0)
		if !errors.Is(err, effectonce.ErrNotFound) {
			return o, err
		}
	}
	return effectonce.Outcome{}, nil
}
