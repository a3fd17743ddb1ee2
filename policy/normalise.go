package policy

import (
	"encoding/json"

	"github.com/effectonce/effectonce/canon"
)

// fixedCode is the currency that the policy gives an amount itself.
func (a *argument) fixedCode() string {
	if a.amount == nil {
		return ""
	}
	return a.amount.Code
}

// normalise applies the steps; for an amount the result is a canon.AmountValue.
func (a *argument) normalise(v any, currency string) (any, error) {
	// Models send ids as numbers or as text, and an id has one type: else one intent would have two fingerprints.
	if _, number := v.(json.Number); number && a.asText {
		text, err := textOf.Normalise(v)
		if err != nil {
			return nil, err
		}
		v = text
	}
	for _, step := range a.steps {
		var err error
		if v, err = step.Normalise(v); err != nil {
			return nil, err
		}
	}
	if a.amount == nil {
		return canon.NFC(v)
	}
	unit := canon.UnitMajor
	if a.amount.Unit != "" {
		unit = canon.AmountUnit(a.amount.Unit)
	}
	amount, err := canon.ParseAmount(v, currency, unit)
	if err != nil {
		return nil, err
	}
	if amount.Minor < 0 && !a.amount.Negative {
		return nil, &canon.Error{Problem: canon.ProblemNotNormalisable, Detail: "the amount is negative", Remedy: "send an amount of zero or more; the policy does not say negative: true"}
	}
	return amount, nil
}

var textOf = mustNormaliser("text")

func mustNormaliser(name string) canon.Normaliser {
	n, err := canon.ParseNormaliser(name, "")
	if err != nil {
		panic("policy: canon has no normaliser " + name)
	}
	return n
}
