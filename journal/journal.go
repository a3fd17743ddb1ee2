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

// Runs returns a page of runs, those that began last first.
func (j *Journal) Runs(ctx context.Context, f effectonce.RunFilter) (effectonce.RunPage, error) {
	return j.store.Runs(ctx, f)
}

// StepUndone is the step that ends a run because it is undone (S11.3): what was decided before it and has not started is not started
// any more.
const StepUndone = "effectonce.undone"

// Decide returns the step's decision, and what to do now. Only where none is recorded, and no operation of the step has started, is
// ask called; what it returns is stored before Decide returns, unless somebody else was faster: then everybody gets theirs (S10.1,
// S10.2). Tenant, run and step of the decision are filled in. Its Operation is the key of the call where the caller knows it
// ([effectonce.Guard.Preview]); else the operation is found by run and step.
//
// An error of ask is returned as it is, and nothing is stored. Others: [effectonce.ErrRunFinished] for a step that a finished run does
// not have, [effectonce.ErrInvalid], [effectonce.ErrNotCanonical], [effectonce.ErrForbidden], those of the store. If the answer of
// the store is lost, the decision may be recorded: call Decide again.
func (r *Run) Decide(ctx context.Context, step string, ask func(ctx context.Context) (effectonce.Decision, error)) (Entry, error) {
	e, err := r.Step(ctx, step)
	if err != nil || e.Do != DoDecide && e.Do != DoFinished {
		return e, err
	}
	if e.Do == DoFinished {
		if e.Decided {
			return e, nil
		}
		return e, r.refuse(ctx)
	}
	d, err := ask(ctx)
	if err != nil {
		return e, err
	}
	d.Tenant, d.Run, d.Step = r.tenant, r.name, step
	return r.Record(ctx, d)
}

// Record stores a decision as [Run.Decide] does, for a caller that has made it already. If the step's operation started without
// one, that stays so: nothing is stored, and the entry shows the operation.
func (r *Run) Record(ctx context.Context, d effectonce.Decision) (Entry, error) {
	d.Tenant, d.Run = r.tenant, r.name
	if err := d.Check(); err != nil {
		return Entry{}, err
	}
	e, err := r.Step(ctx, d.Step)
	if err != nil || e.Decided || e.Started() {
		return e, err
	}
	stored, first, err := r.journal.store.Decide(ctx, d)
	if err != nil {
		return e, err
	}
	return r.entry(ctx, stored, first)
}

// Step returns a step as it stands, and what to do. A step of which nothing is known is to be decided, or, in a finished run, is none.
func (r *Run) Step(ctx context.Context, step string) (Entry, error) {
	if err := (effectonce.Decision{Run: r.name, Step: step}).Check(); err != nil {
		return Entry{}, err
	}
	d, err := r.journal.store.Decision(ctx, r.tenant, r.name, step)
	if err == nil {
		return r.entry(ctx, d, false)
	}
	if !errors.Is(err, effectonce.ErrNotFound) {
		return Entry{}, err
	}
	e := Entry{Run: r.name, Step: step}
	if e.Operation, err = r.started(ctx, step); err != nil {
		return e, err
	}
	if e.Started() {
		return e.judge(false), nil
	}
	last, err := r.finishing(ctx)
	return e.judge(last != ""), err
}

// entry shows a recorded decision with what became of it.
func (r *Run) entry(ctx context.Context, d effectonce.Decision, first bool) (Entry, error) {
	e := Entry{Run: r.name, Step: d.Step, Decided: true, Decision: d, First: first}
	if d.Tool == "" {
		return e.judge(false), nil
	}
	var err error
	if d.Operation.IsZero() {
		e.Operation, err = r.started(ctx, d.Step)
	} else {
		e.Operation, err = r.operation(ctx, d.Operation)
	}
	if err != nil || e.Started() {
		return e.judge(false), err
	}
	last, err := r.finishing(ctx)
	if e = e.judge(false); last == StepUndone {
		e.Do = DoFinished
	}
	return e, err
}

// Decided returns the decision of a step, if one is recorded, and whether the run has been undone since.
func (r *Run) Decided(ctx context.Context, step string) (d effectonce.Decision, ok, undone bool, err error) {
	all, err := r.journal.store.Decisions(ctx, r.tenant, r.name)
	for _, one := range all {
		if one.Step == step {
			d, ok = one, true
		}
		undone = undone || one.Step == StepUndone && one.Finish
	}
	return d, ok, undone, err
}

// operation is how an operation stands; its state is empty where there is none.
func (r *Run) operation(ctx context.Context, key effectonce.Key) (effectonce.Outcome, error) {
	o, err := r.journal.guard.Wait(ctx, key, 0)
	if errors.Is(err, effectonce.ErrNotFound) {
		return effectonce.Outcome{}, nil
	}
	return o, err
}

// started is the newest operation that was recorded for a step.
func (r *Run) started(ctx context.Context, step string) (effectonce.Outcome, error) {
	page, err := r.journal.store.List(ctx, effectonce.Filter{Tenant: r.tenant, Run: r.name, Step: step, Limit: 1})
	if err != nil || len(page.Operations) == 0 {
		return effectonce.Outcome{}, err
	}
	return r.operation(ctx, page.Operations[0].Key)
}

// finishing is the step that ended the run, empty while it has not ended.
func (r *Run) finishing(ctx context.Context) (string, error) {
	all, err := r.journal.store.Decisions(ctx, r.tenant, r.name)
	if err != nil {
		return "", err
	}
	if i := slices.IndexFunc(all, func(d effectonce.Decision) bool { return d.Finish }); i >= 0 {
		return all[i].Step, nil
	}
	return "", nil
}

func (r *Run) refuse(ctx context.Context) error {
	last, err := r.finishing(ctx)
	if err != nil {
		return err
	}
	return effectonce.RunFinished(r.name, last)
}
