package effectonce

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// This file is S10: what a model decided is stored before anything runs, and never changes (S5.1 I9).

// NoteBytesMax bounds the free text of a decision.
const NoteBytesMax = 16 << 10

// ReservedTenant is the tenant of what Effectonce itself writes down in a store, such as the identities that tools have had (S3.12).
// Nothing of it is listed to callers, and nothing is recorded under it for them.
const ReservedTenant = "effectonce"

// Decision is what was chosen for one step of a run. The first one recorded for a step is the step's (S10.1).
type Decision struct {
	Tenant string
	Run    string
	Step   string
	// Tool and Arguments are the call that was chosen; an empty Tool is a step without an effect, whose Arguments are its
	// content. IntentID is set where the orchestrator, not a policy, names the intent.
	Tool      string
	IntentID  string
	Arguments json.RawMessage
	// Finish says that the run ends with this step: no further step is recorded.
	Finish bool
	// Note is free text, kept for people.
	Note  string
	Actor string
	// Operation is the operation that the call is, zero where there is none or it cannot be computed from the decision.
	Operation Key
	// Seq is the step's place in the run, counted from 1 in the order of recording. The store sets Seq and At.
	Seq int64
	At  time.Time
}

// Journal is the port to recorded decisions (S10).
type Journal interface {
	// Decide stores the decision of a step that has none, or returns the stored one; first says which (S10.1). Of a finished
	// run no further step is stored: the error is [ErrRunFinished].
	Decide(ctx context.Context, d Decision) (stored Decision, first bool, err error)
	// Decision returns the decision of a step, or [ErrNotFound].
	Decision(ctx context.Context, tenant, run, step string) (Decision, error)
	// Decisions returns the decisions of a run in their order; none for an unknown run.
	Decisions(ctx context.Context, tenant, run string) ([]Decision, error)
	// Runs returns a page of runs, those that began last first.
	Runs(ctx context.Context, f RunFilter) (RunPage, error)
}

// RunFinished is the refusal of a step after the run's last one; it is for stores.
func RunFinished(run, last string) error {
	return &Error{
		Code: CodeRunFinished, Field: "step", Detail: fmt.Sprintf("step %q was recorded as the last one of run %q", last, run),
		Remedy: "begin another run",
	}
}

// RunFilter selects runs. Zero fields select all.
type RunFilter struct {
	Tenant string
	// Text matches any part of the run's name.
	Text string
	// Unfinished selects runs without a finishing step.
	Unfinished bool
	// After continues a list; Limit is 1 to ListLimitMax, 0 for 50.
	After string
	Limit int
}

// Run is a run as far as the journal knows it.
type Run struct {
	Tenant   string    `json:"tenant"`
	Run      string    `json:"run"`
	Steps    int       `json:"steps"`
	Finished bool      `json:"finished"`
	BeganAt  time.Time `json:"began_at"`
	LastAt   time.Time `json:"last_at"`
}

// RunPage is a page of runs. Next is the After of the following page, empty at the end.
type RunPage struct {
	Runs []Run
	Next string
}

// Check refuses a decision that cannot be recorded: run and step have to be named, arguments are a JSON object in the strict sense of
// S4.4. The error is [ErrInvalid] or [ErrNotCanonical].
func (d Decision) Check() error {
	for _, f := range [][2]string{{"run", d.Run}, {"step", d.Step}, {"tool", d.Tool}, {"intent_id", d.IntentID}, {"actor", d.Actor}} {
		if len(f[1]) > IdentifierBytesMax {
			return invalid(f[0], "is longer than 512 bytes", "use a name, not a text")
		}
		if err := plain(f[0], f[1]); err != nil {
			return err
		}
	}
	switch {
	case d.Run == "":
		return invalid("run", "is missing", "name the run")
	case d.Step == "":
		return invalid("step", "is missing", "name the step")
	case d.Tool == "" && d.IntentID != "":
		return invalid("intent_id", "belongs to a tool", "name the tool, or leave it out for a step without an effect")
	case len(d.Note) > NoteBytesMax:
		return invalid("note", "is longer than 16 KiB", "shorten it")
	}
	if d.Arguments == nil {
		return nil
	}
	_, _, err := canonical("arguments", d.Arguments)
	return err
}
