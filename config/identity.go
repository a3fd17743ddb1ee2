package config

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
	"github.com/effectonce/effectonce/policy"
)

// CheckIdentities refuses a configuration under which a tool's stored operations would not be recognised any more: another scope,
// template or normaliser gives the same call another key, and the same intent would execute again (S3.12). What decides is the policy
// of the tool's newest operation. For the tools in accepted the edit is meant. It is called once the store is open and before the first
// call. The error is a [Problems], or says that the store cannot be read.
func (c *Config) CheckIdentities(ctx context.Context, store effectonce.Store, accepted map[string]bool) error {
	var problems Problems
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		if accepted[name] {
			continue
		}
		t := c.Tools[name]
		detail, err := t.reidentified(ctx, store)
		if err != nil {
			return fmt.Errorf("compare the identities of %s with the store's: %w", name, err)
		}
		if detail != "" {
			problems = append(problems, Problem{File: c.File, Line: t.line, Column: t.column, Field: field([]string{"tools", name}), Detail: detail,
				Remedy: "restore scope, intent_id and the normalisers of its arguments; or, if no call from before the edit can come again, start once with: serve --new-identity " + name})
		}
	}
	if len(problems) > 0 {
		return problems.sorted()
	}
	return nil
}

// reidentified says how the identities of the tool's stored operations differ from those that it would give now; "" if they do not.
func (t *Tool) reidentified(ctx context.Context, store effectonce.Store) (string, error) {
	page, err := store.List(ctx, effectonce.Filter{Tool: t.Policy.Name, Limit: 1})
	if err != nil || len(page.Operations) == 0 {
		return "", err
	}
	newest := page.Operations[0]
	const follows = ": they would not be recognised, and the same intent would execute again"
	before, err := t.policyOf(ctx, store, newest)
	if effectonce.CodeOf(err) == effectonce.CodePolicyGone {
		return "its operations were recorded under a policy that cannot be read here (" + err.Error() + ")" + follows, nil
	}
	if err != nil {
		return "", err
	}
	was, err := before.IdentityVersion()
	if err != nil {
		return "", err
	}
	is, err := t.Policy.IdentityVersion()
	if err != nil || was == is {
		return "", err
	}
	return fmt.Sprintf("its operations were recorded under another identity (%s), and now it is %s%s", before.IdentityWords(), t.Policy.IdentityWords(), follows), nil
}

// policyOf is the policy under which an operation was recorded. Where there was none, the caller gave the intent id.
func (t *Tool) policyOf(ctx context.Context, store effectonce.Store, op effectonce.Operation) (*policy.Tool, error) {
	if op.Terms.Policy == "" {
		none, problems := policy.Compile(policy.Spec{Name: op.Tool, Scope: op.Scope})
		if len(problems) > 0 {
			return nil, errors.New(problems[0].String())
		}
		return none, nil
	}
	if op.Terms.Policy == t.Policy.Version {
		return t.Policy, nil
	}
	gone := func(err error) error {
		return &effectonce.Error{Code: effectonce.CodePolicyGone, Field: "policy", Detail: "the store has no policy version " + op.Terms.Policy, Cause: err}
	}
	digest, err := canon.ParseDigest(op.Terms.Policy)
	if err != nil {
		return nil, gone(err)
	}
	doc, err := store.Document(ctx, digest)
	if errors.Is(err, effectonce.ErrNotFound) {
		return nil, gone(err)
	}
	if err != nil {
		return nil, err
	}
	return policy.FromDocument(doc)
}
