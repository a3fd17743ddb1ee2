package policy

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// IdentityVersion is the digest of what decides about keys and how long they are known: scope, template, and the arguments that the
// template names, with their normalisers (S3.12); and when identities end (S13.2). Two versions of a policy with the same
// IdentityVersion give the same call the same key for the same time.
func (t *Tool) IdentityVersion() (canon.Digest, error) {
	doc, err := documentOf(t.identity(), nil)
	if err != nil {
		return canon.Digest{}, err
	}
	return sha256.Sum256(doc), nil
}

// identity is the part of the policy that decides about keys.
func (t *Tool) identity() Spec {
	identity := Spec{Name: t.Name, Scope: t.spec.Scope, IntentID: t.spec.IntentID, Arguments: map[string]Argument{}}
	identity.Retention.Identity = t.spec.Retention.Identity
	if identity.Scope == "" {
		identity.Scope = effectonce.ScopeBusiness
	}
	if t.intentID != nil {
		for _, name := range t.intentID.names {
			ref, a := t.resolve(name)
			if a == nil {
				continue
			}
			identity.Arguments[ref.argument] = t.identityOf(ref.argument)
			if a.amount != nil && a.amount.Currency != "" {
				identity.Arguments[a.amount.Currency] = t.identityOf(a.amount.Currency)
			}
		}
	}
	return identity
}

// IdentityWords says for people what IdentityVersion is a digest of: scope, template, and how the arguments in it are read.
func (t *Tool) IdentityWords() string {
	identity := t.identity()
	words := "scope " + string(identity.Scope) + ", "
	if identity.IntentID == "" {
		return words + "the intent id that the caller gives"
	}
	words += "intent_id " + strconv.Quote(identity.IntentID)
	for _, name := range slices.Sorted(maps.Keys(identity.Arguments)) {
		words += ", " + name + " " + identity.Arguments[name].words()
	}
	if id := identity.Retention.Identity; id != nil {
		words += ", kept " + id.For.Written() + " after " + id.Period
	}
	return words
}

func (a Argument) words() string {
	var steps []string
	for _, n := range a.Normalise {
		step := n.Name
		if n.Argument != "" {
			step += " " + strconv.Quote(n.Argument)
		}
		if m := n.Amount; m != nil {
			step += " in " + m.Currency + m.Code + " " + m.Unit
		}
		steps = append(steps, strings.TrimSpace(step))
	}
	words := "as it is"
	if len(steps) > 0 {
		words = "by " + strings.Join(steps, ", ")
	}
	if a.Default != nil {
		words += fmt.Sprintf(" (default %s)", a.Default)
	}
	return words
}

// identityOf is what a policy says about an argument as far as it decides about keys: which calls are accepted at all does not.
func (t *Tool) identityOf(name string) Argument {
	a := t.spec.Arguments[name]
	a.Kind, a.Required, a.OneOf = "", false, nil
	return a
}
