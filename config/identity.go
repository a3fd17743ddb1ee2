package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
	"github.com/effectonce/effectonce/policy"
)

// This file is S3.12 and S13.2: an edit of scope, template or normalisers gives the same call another key. Its new operations get the keys
// of the earlier identities too, so that a call from before the edit is still the same operation.
//
// The earlier identities of a tool are found from its newest operation: that was recorded under a policy whose document names those
// before it ([policy.Tool.WithFormerly]). So every operation has the key of the oldest identity that is still alive, whichever daemon
// recorded it, and two operations of one intent always share a key.

// Operations is what of a store is read to find earlier identities.
type Operations interface {
	List(ctx context.Context, f effectonce.Filter) (effectonce.Page, error)
	Document(ctx context.Context, digest canon.Digest) ([]byte, error)
}

// KeepIdentities finds the earlier identities of each tool, and lets its calls have them too. It refuses a configuration with which
// they cannot be computed from every call: the same intent would execute again. For the tools in accepted the edit is meant, and
// their earlier identities end. It is called once the store is open, before [Config.Keep] and the first call. The error is a
// [Problems], or says that the store cannot be read.
func (c *Config) KeepIdentities(ctx context.Context, store Operations, accepted map[string]bool) error {
	var problems Problems
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		t := c.Tools[name]
		detail, err := t.keepIdentities(ctx, store, accepted[name])
		if err != nil {
			return fmt.Errorf("compare the identities of %s with the store's: %w", name, err)
		}
		if detail != "" {
			problems = append(problems, Problem{File: c.File, Line: t.line, Column: t.column, Field: field([]string{"tools", name}), Detail: detail,
				Remedy: "restore scope, intent_id and its arguments; or, if no call from before the edit can come again, start once with: serve --new-identity " + name})
		}
	}
	if len(problems) > 0 {
		return problems.sorted()
	}
	return nil
}

// keepIdentities says why an earlier identity of the tool cannot be kept; "" if all are.
func (t *Tool) keepIdentities(ctx context.Context, store Operations, accepted bool) (string, error) {
	if t.terms.Class == effectonce.ClassReadOnly {
		return "", nil
	}
	earlier, detail, err := t.earlier(ctx, store)
	if err != nil {
		return "", err
	}
	is, err := t.Policy.IdentityVersion()
	if err != nil {
		return "", err
	}
	if accepted {
		if detail != "" || len(earlier) == 0 {
			return "", nil
		}
		if newest, err := earlier[0].IdentityVersion(); err != nil || newest != is {
			return "", err
		}
	}
	if detail != "" {
		return detail, nil
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
			return fmt.Sprintf("its operations were recorded under another identity (%s), and now it is %s; %s: they would not be recognised, and the same intent would execute again",
				old.IdentityWords(), t.Policy.IdentityWords(), err), nil
		}
		kept = append(kept, former{policy: old, Former: f})
	}
	return t.have(kept)
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

// lookBack is how many operations without a policy are passed over on the way to one with a policy.
const lookBack = 50

// earlier lists the policies of the tool's newest operation and those that it names; detail says which of them cannot be read.
func (t *Tool) earlier(ctx context.Context, store Operations) (found []*policy.Tool, detail string, err error) {
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
	var versions []string
	for _, op := range page.Operations {
		if op.Terms.Policy != "" {
			versions = append(versions, op.Terms.Policy)
			break
		}
		none, problems := policy.Compile(policy.Spec{Name: op.Tool, Scope: op.Scope})
		if len(problems) > 0 {
			return nil, "", errors.New(problems[0].String())
		}
		found = append(found, none)
	}
	for i := 0; i < len(versions) && i <= policy.FormerMax; i++ {
		old, err := t.version(ctx, store.Document, versions[i])
		if effectonce.CodeOf(err) == effectonce.CodePolicyGone {
			return found, "its operations were recorded under a policy that cannot be read here (" + err.Error() + "): they would not be recognised, and the same intent would execute again", nil
		}
		if err != nil {
			return nil, "", err
		}
		found = append(found, old)
		if i == 0 {
			versions = append(versions, old.Formerly()...)
		}
	}
	return found, "", nil
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
