package fault

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
)

// ProbeOptions describe a user's own tool, and how to count what it did (S14.7).
//
// A probe really causes effects: point it at a test installation. Each half of each window uses an effect of its own, named by
// a new id that the placeholder {effect} stands for, in the path, the query, the body and the count's address.
type ProbeOptions struct {
	Tool  ProbeTool
	Count ProbeCount
	// Timeout bounds one call of the tool; 0 means 5 s. The waits of the guarded half grow with it.
	Timeout time.Duration
	// Windows names the windows to try; none means all. See [ProbeWindows].
	Windows []string
	// Program is run again as child processes, which must call [ProbeChild] first; empty means this program.
	Program string
}

// ProbeTool says how the tool is called and what it promises about repeats. What is left out is not promised.
type ProbeTool struct {
	// URL with scheme and host; {effect} may stand in the path or the query. Method is POST if empty.
	URL    string `json:"url"`
	Method string `json:"method,omitempty"`
	// Encoding of the body is json if empty. Body is its template; nil sends {"effect": "..."}.
	Encoding contract.Encoding `json:"encoding,omitempty"`
	Body     map[string]any    `json:"body,omitempty"`
	// Headers are sent as they are. Credential is sent as a bearer token and told to nobody else.
	Headers    map[string]string `json:"headers,omitempty"`
	Credential string            `json:"credential,omitempty"`
	// KeyHeader is the header of the idempotency key, empty if the tool has none; Retention how long it certainly remembers one, 0
	// if nobody promises a time, and Forever that it always does.
	KeyHeader string        `json:"key_header,omitempty"`
	Retention time.Duration `json:"retention,omitempty"`
	Forever   bool          `json:"forever,omitempty"`
	// Stamp is the body's field in which the tool keeps a mark of ours, as metadata.effectonce; empty if it has no place for one.
	Stamp string `json:"stamp,omitempty"`
	// Reference is where an answer holds the id of what was created; empty: it need not hold one.
	Reference string `json:"reference,omitempty"`
	// Processing is how long the tool may work on a request; 0 means a second.
	Processing time.Duration `json:"processing,omitempty"`
	// LookUp says how to ask the tool what it did; nil: it cannot be asked. It needs a stamp.
	LookUp *ProbeLookUp `json:"look_up,omitempty"`
}

// ProbeLookUp lists what the tool has.
type ProbeLookUp struct {
	// Path is that of the list on the tool's host, with {effect} and a query where needed.
	Path string `json:"path"`
	// Items is where the answer holds the list, empty if it is the list. Stamp and Reference are where an item shows the mark and
	// its id, empty for the tool's. The list must come in one answer.
	Items     string `json:"items,omitempty"`
	Stamp     string `json:"stamp,omitempty"`
	Reference string `json:"reference,omitempty"`
	// Lag is how far the list may be behind; nil if nobody knows, and then absence is never concluded.
	Lag *time.Duration `json:"lag,omitempty"`
	// ResendWhenAbsent accepts the risk of a resend once absence is conclusive (S7.3 line 10).
	ResendWhenAbsent bool `json:"resend_when_absent,omitempty"`
}

// ProbeCount reads how many effects there are: a number, or a list whose length counts, at Path of the JSON answer to a GET. With
// {effect} in the address it may count those of one effect, without it all; only the growth is used.
type ProbeCount struct {
	URL     string            `json:"url"`
	Path    string            `json:"path,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// ProbeRow is what one crash window did.
type ProbeRow struct {
	Window string `json:"window"`
	// About says what happens in the window.
	About string `json:"about"`
	// Unguarded and Guarded count the effects at the tool, Want how many were authorised.
	Unguarded int `json:"unguarded"`
	Guarded   int `json:"guarded"`
	Want      int `json:"want"`
	// State is how the guarded operation ended. In review a person decides: it is right there as long as there was no effect too
	// many.
	State effectonce.State `json:"state"`
	// Note says what a reader has to know about the row.
	Note string `json:"note,omitempty"`
}

// Right reports whether the guard kept its promise in this window.
func (r ProbeRow) Right() bool {
	switch r.State {
	case effectonce.StateSucceeded:
		return r.Guarded == r.Want
	case effectonce.StateReview:
		return r.Guarded <= r.Want
	}
	return false
}

// ProbeReport is the outcome of a probe.
type ProbeReport struct {
	Rows []ProbeRow `json:"rows"`
	// Promises says in words what the options promise about the tool, and so what the guard could build on.
	Promises string `json:"promises"`
}

// Right reports whether all rows are.
func (r ProbeReport) Right() bool {
	for _, row := range r.Rows {
		if !row.Right() {
			return false
		}
	}
	return len(r.Rows) > 0
}

// RunProbe tries each crash window on the tool twice: with a caller that simply tries again, and with a guard over a temporary
// SQLite file. Both run in child processes that are really killed. progress, if not nil, is told what begins. The windows run
// one after another, and the whole takes some seconds for each.
//
// The error is an [effectonce.ErrInvalid] for options that cannot work, or says why the tool or its count could not be
// reached. On an error the report holds the rows so far.
func RunProbe(ctx context.Context, o ProbeOptions, progress func(step string)) (ProbeReport, error) {
	o = o.withDefaults()
	windows, err := o.windows()
	if err != nil {
		return ProbeReport{}, err
	}
	if err := o.check(); err != nil {
		return ProbeReport{}, err
	}
	if progress == nil {
		progress = func(string) {}
	}
	dir, err := os.MkdirTemp("", "effectonce-probe-")
	if err != nil {
		return ProbeReport{}, fmt.Errorf("probe: %w", err)
	}
	defer os.RemoveAll(dir)
	p := &prober{options: o, dir: dir}
	report := ProbeReport{Promises: o.Tool.promises()}
	for _, w := range windows {
		progress(w.name + ", without the guard")
		row, err := p.try(ctx, w, func() { progress(w.name + ", with the guard") })
		if err != nil {
			return report, fmt.Errorf("probe: %s: %w", w.name, err)
		}
		report.Rows = append(report.Rows, row)
	}
	return report, nil
}

func (o ProbeOptions) withDefaults() ProbeOptions {
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Tool.Processing == 0 {
		o.Tool.Processing = time.Second
	}
	return o
}

func (o ProbeOptions) check() error {
	if o.Count.URL == "" {
		return probeInvalid("count.url", "is missing", "name an address that tells how many effects there are")
	}
	if o.Timeout < 0 {
		return probeInvalid("timeout", "is negative", "leave it out for 5 s")
	}
	p, err := o.Tool.provider()
	if err != nil {
		return err
	}
	if _, err := p.Render(effectArguments("check")); err != nil {
		return err
	}
	return o.Tool.terms(p, o.Timeout).Check()
}

// promises says what can be built on.
func (t ProbeTool) promises() string {
	var keyed, asked string
	switch {
	case t.KeyHeader == "":
		keyed = "the tool takes no key"
	case t.Forever:
		keyed = "the tool remembers the key in " + t.KeyHeader + " for ever"
	case t.Retention > 0:
		keyed = fmt.Sprintf("the tool remembers the key in %s for %s", t.KeyHeader, t.Retention)
	default:
		keyed = "nobody promises how long the tool remembers the key in " + t.KeyHeader + ", so it justifies no resend"
	}
	switch {
	case t.LookUp == nil:
		asked = "cannot be asked what it did"
	case t.LookUp.Lag == nil:
		asked = "can be asked what it did, but nobody says how late that shows, so that it can only find and never exclude"
	default:
		asked = fmt.Sprintf("shows what it did within %s", *t.LookUp.Lag)
	}
	text := keyed + ", and " + asked
	if t.KeyHeader == "" && t.LookUp == nil {
		text += ": an ambiguous end stops for a person, because nobody can know"
	}
	return text
}

func probeInvalid(field, detail, remedy string) error {
	return &effectonce.Error{Code: effectonce.CodeInvalid, Field: field, Detail: detail, Remedy: remedy}
}
