package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
	"github.com/effectonce/effectonce/events"
	"github.com/effectonce/effectonce/policy"
)

// This file is S3.12 and S13.2: an edit of scope, template or normalisers gives the same call another key. Its new operations get the keys
// of the earlier identities too, so that a call from before the edit is still the same operation.
//
// Daemons with one store find each other's identities in two ways. Each enters its own in the register of the tool before its first call,
// and its calls have the identities before it; so of two operations of one intent the one that was recorded under the later identity has
// the key of the earlier one. And what was recorded without a register is found from the tool's newest operation, whose policy
// names the identities before it ([policy.Tool.WithFormerly]).

// Operations is what of a store is needed to find earlier identities, and to enter new ones.
type Operations interface {
	List(ctx context.Context, f effectonce.Filter) (effectonce.Page, error)
	Document(ctx context.Context, digest canon.Digest) ([]byte, error)
	PutDocument(ctx context.Context, doc []byte) (canon.Digest, error)
	Decide(ctx context.Context, d effectonce.Decision) (stored effectonce.Decision, first bool, err error)
	Decisions(ctx context.Context, tenant, run string) ([]effectonce.Decision, error)
}

// KeepIdentities finds the earlier identities of each tool, lets its calls have them too, and enters its own in the store, where daemons
// that start later find it. It refuses a configuration with which earlier ones cannot be computed from every call: the same intent would
// execute again. It also refuses an inbox source whose events would not be recognised. For the tools in accepted, and for sources as
// inbox.SOURCE, the edit is meant, and what was before ends. It is called once the store is open, before [Config.Keep] and the
// first call. The error is a [Problems], of which nothing was entered unless somebody else did at the same moment; or it says that the
// store cannot be used.
func (c *Config) KeepIdentities(ctx context.Context, store Operations, accepted map[string]bool) error {
	// A start that is refused for one tool enters no other, since it could be in the way of the next file.
	if err := c.identities(ctx, store, accepted, false); err != nil {
		return err
	}
	return c.identities(ctx, store, accepted, true)
}

// FindIdentities is KeepIdentities without a trace in the store, for commands that only show what a daemon would do.
func (c *Config) FindIdentities(ctx context.Context, store Operations) error {
	return c.identities(ctx, store, nil, false)
}

func (c *Config) identities(ctx context.Context, store Operations, accepted map[string]bool, enter bool) error {
	var problems Problems
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		t := c.Tools[name]
		detail, err := t.keepIdentities(ctx, store, accepted[name], enter)
		if err != nil {
			return fmt.Errorf("compare the identities of %s with the store's: %w", name, err)
		}
		if detail != "" {
			problems = append(problems, Problem{File: c.File, Line: t.line, Column: t.column, Field: field([]string{"tools", name}), Detail: detail,
				Remedy: "restore scope, intent_id and its arguments; or, if no call from before the edit can come again, stop all daemons and start once with: serve --new-identity " + name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Inbox)) {
		tool := events.ToolPrefix + name
		detail, err := keepSource(ctx, store, c.Inbox[name], accepted[tool], enter)
		if err != nil {
			return fmt.Errorf("compare the source %s with the store's: %w", name, err)
		}
		if detail != "" {
			at := c.sources[name]
			problems = append(problems, Problem{File: c.File, Line: at.line, Column: at.column, Field: field([]string{"inbox", name}), Detail: detail,
				Remedy: "restore format and event_id; or, if no event from before the edit can be delivered again, stop all daemons and start once with: serve --new-identity " + tool})
		}
	}
	if len(problems) > 0 {
		return problems.sorted()
	}
	return nil
}

// keepIdentities says why an earlier identity of the tool cannot be kept; "" if all are, or their end is accepted. With enter the
// tool's own is in the register afterwards.
func (t *Tool) keepIdentities(ctx context.Context, store Operations, accepted, enter bool) (string, error) {
	if t.terms.Class == effectonce.ClassReadOnly {
		return "", nil
	}
	digest, err := t.Policy.IdentityVersion()
	if err != nil {
		return "", err
	}
	is := registered{Identity: digest.String(), Words: t.Policy.IdentityWords()}
	own := func(e registered) bool { return e.Identity == is.Identity }
	r := registerOfTool(store, t.Policy.Name)
	for {
		all, err := r.entries(ctx)
		if err != nil {
			return "", err
		}
		counted := alive(all)
		detail, err := t.take(ctx, store, counted, slices.IndexFunc(counted, own), digest)
		if err != nil {
			return "", err
		}
		// The flag may stay where it is: who has ended the earlier identities already does not end those that came since.
		is.Cut = accepted && (detail != "" || len(counted) == 0 || !counted[0].Cut || !own(counted[0]))
		if is.Cut {
			detail, err = t.have(nil)
		}
		if err != nil || detail != "" || !enter || !is.Cut && slices.ContainsFunc(counted, own) {
			return detail, err
		}
		// Whoever reads the entry reads the policies that it names.
		if err := t.keep(ctx, store.PutDocument); err != nil {
			return "", err
		}
		is.Policy = t.Policy.Version
		if first, err := r.enter(ctx, len(all)+1, is); err != nil || first {
			return "", err
		}
	}
}

// take lets the tool's calls have the identities before its own, which is the one at own in the register, or none if negative. detail says
// why one of them cannot be had.
func (t *Tool) take(ctx context.Context, store Operations, counted []registered, own int, is canon.Digest) (detail string, err error) {
	earlier, detail, err := t.earlier(ctx, store, counted, own)
	if err != nil || detail != "" {
		return detail, err
	}
	var kept []former
	seen := map[canon.Digest]bool{is: true}
	for _, old := range earlier {
		was, err := old.IdentityVersion()
		if err != nil {
			return "", err
		}
		if seen[was] {
			continue
		}
		seen[was] = true
		f, err := t.Policy.Former(old)
		if err != nil {
			return fmt.Sprintf("on this store its operations were recorded under another identity (%s), or a daemon was started for that, and now it is %s; %s: they would not be recognised, and the same intent would execute again",
				old.IdentityWords(), t.Policy.IdentityWords(), err), nil
		}
		kept = append(kept, former{policy: old, Former: f})
	}
	return t.have(kept)
}

// earlier lists the policies with identities that the tool's calls must have too: those entered before its own one, and those of the
// newest operation. What was entered after its own one is left out: its operations have the tool's own key.
func (t *Tool) earlier(ctx context.Context, store Operations, counted []registered, own int) (found []*policy.Tool, detail string, err error) {
	before, later := counted, map[string]bool{}
	if own >= 0 {
		before = counted[:own+1] // its own entry names what there was without a register
		for _, e := range counted[own+1:] {
			later[e.Identity] = true
		}
	}
	var versions []string
	for _, e := range before {
		if e.problem != nil {
			return nil, fmt.Sprintf("entry %d in the store's register of its identities cannot be read here (%s): its operations would not be recognised, and the same intent would execute again", e.position, e.problem), nil
		}
		versions = append(versions, e.Policy)
	}
	if found, detail, err = t.policies(ctx, store, versions); err != nil || detail != "" {
		return found, detail, err
	}
	var cut time.Time
	if len(counted) > 0 && counted[0].Cut {
		cut = counted[0].at
	}
	newest, detail, err := t.newest(ctx, store, cut)
	if err != nil || detail != "" {
		return found, detail, err
	}
	for _, p := range newest {
		was, err := p.IdentityVersion()
		if err != nil {
			return nil, "", err
		}
		if !later[was.String()] {
			found = append(found, p)
		}
	}
	return found, "", nil
}

// policies reads versions of the tool's policy, each with those that it names. detail says which of them cannot be read.
func (t *Tool) policies(ctx context.Context, store Operations, versions []string) (found []*policy.Tool, detail string, err error) {
	known := map[string]bool{}
	read := func(version string) (*policy.Tool, error) {
		known[version] = true
		p, err := t.version(ctx, store.Document, version)
		if effectonce.CodeOf(err) == effectonce.CodePolicyGone {
			detail, err = "its operations were recorded under a policy that cannot be read here ("+err.Error()+"): they would not be recognised, and the same intent would execute again", nil
		}
		if p != nil {
			found = append(found, p)
		}
		return p, err
	}
	for _, version := range versions {
		p, err := read(version)
		if err != nil || p == nil {
			return found, detail, err
		}
		for _, named := range p.Formerly() {
			if known[named] {
				continue
			}
			if old, err := read(named); err != nil || old == nil {
				return found, detail, err
			}
		}
	}
	return found, "", nil
}

// former is an earlier identity of a tool, with the policy that it comes from.
type former struct {
	policy *policy.Tool
	*policy.Former
}

// have lets the tool's calls have earlier identities.
func (t *Tool) have(earlier []former) (string, error) {
	if len(earlier) > policy.FormerMax {
		return fmt.Sprintf("it has had more than %d identities", policy.FormerMax), nil
	}
	versions := make([]string, len(earlier))
	for i, f := range earlier {
		versions[i] = f.policy.Version
	}
	with, err := t.Policy.WithFormerly(versions)
	if err != nil {
		return "", err
	}
	t.Policy, t.terms.Policy, t.former = with, with.Version, earlier
	return "", nil
}

// keep stores the tool's policy, and those that it names: an identity of operations without a policy has a policy only here.
func (t *Tool) keep(ctx context.Context, put func(ctx context.Context, doc []byte) (canon.Digest, error)) error {
	policies := []*policy.Tool{t.Policy}
	for _, f := range t.former {
		policies = append(policies, f.policy)
	}
	for _, p := range policies {
		digest, err := put(ctx, p.Document())
		if err != nil {
			return fmt.Errorf("store the policy of %s: %w", t.Policy.Name, err)
		}
		if digest.String() != p.Version {
			return fmt.Errorf("store the policy of %s: the store calls it %s, and its version is %s", t.Policy.Name, digest, p.Version)
		}
	}
	return nil
}

// lookBack is how many operations without a policy are passed over on the way to one with a policy.
const lookBack = 50

// newest lists the policies of the tool's newest operation and those that it names; none if it was recorded before the cut, for which
// daemons are stopped. detail says which of them cannot be read.
func (t *Tool) newest(ctx context.Context, store Operations, cut time.Time) (found []*policy.Tool, detail string, err error) {
	page, err := store.List(ctx, effectonce.Filter{Tool: t.Policy.Name, Limit: 1})
	if err != nil || len(page.Operations) == 0 {
		return nil, "", err
	}
	if page.Operations[0].Terms.Policy == "" {
		// Somebody recorded it without this configuration, which ends nothing.
		if page, err = store.List(ctx, effectonce.Filter{Tool: t.Policy.Name, Limit: lookBack}); err != nil {
			return nil, "", err
		}
	}
	var without []*policy.Tool
	var versions []string
	for _, op := range page.Operations {
		if !op.CreatedAt.After(cut) {
			break
		}
		if op.Terms.Policy != "" {
			versions = append(versions, op.Terms.Policy)
			break
		}
		none, problems := policy.Compile(policy.Spec{Name: op.Tool, Scope: op.Scope})
		if len(problems) > 0 {
			return nil, "", errors.New(problems[0].String())
		}
		without = append(without, none)
	}
	found, detail, err = t.policies(ctx, store, versions)
	return append(without, found...), detail, err
}

// version reads a kept version of the tool's policy.
func (t *Tool) version(ctx context.Context, document func(ctx context.Context, digest canon.Digest) ([]byte, error), version string) (*policy.Tool, error) {
	if version == t.Policy.Version {
		return t.Policy, nil
	}
	gone := func(err error) error {
		return &effectonce.Error{Code: effectonce.CodePolicyGone, Field: "policy", Detail: "the store has no policy version " + version, Cause: err}
	}
	digest, err := canon.ParseDigest(version)
	if err != nil {
		return nil, gone(err)
	}
	doc, err := document(ctx, digest)
	if errors.Is(err, effectonce.ErrNotFound) {
		return nil, gone(err)
	}
	if err != nil {
		return nil, err
	}
	return policy.FromDocument(doc)
}

// formerly gives an intent the identities that its call had under earlier policies. It ends with the first of them: what was recorded
// under that may be forgotten afterwards, and would execute again (S13.2).
func (t *Tool) formerly(in *effectonce.Intent, args json.RawMessage, meta policy.Meta) error {
	for _, f := range t.former {
		id, ends, err := f.Identity(args, meta)
		if err != nil {
			return err
		}
		in.Formerly = append(in.Formerly, id)
		if !ends.IsZero() && (in.ForgetAt.IsZero() || ends.Before(in.ForgetAt)) {
			in.ForgetAt = ends
		}
	}
	return nil
}

// Formerly says for people which identities the tool's operations have had before, and still have.
func (t *Tool) Formerly() []string {
	var words []string
	for _, f := range t.former {
		words = append(words, f.policy.IdentityWords())
	}
	return words
}
