//go:build unix

package s16_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/fault/twin"
)

// kind is a provider with what is promised about it.
type kind string

const (
	// keyed dedupes by key for 24 hours and cannot be asked.
	keyed kind = "keyed"
	// stripe dedupes and can be asked.
	stripe kind = "stripe"
	// lookUp has no key; its list bears stamps. The policy resends where absence is conclusive.
	lookUp kind = "lookup"
	// strict is the same, with a policy that leaves absence to a person.
	strict kind = "strict"
	// none has neither.
	none kind = "none"
)

// lag is what is promised about the list of lookUp and strict. It is longer than the settle time, so that only it tells when
// absence counts.
const lag = 5 * time.Minute

func (k kind) rules() twin.Rules {
	r := twin.StripeRules()
	switch k {
	case lookUp, strict:
		r.Kind = twin.LookupOnly
	case none:
		r.Kind = twin.NoDedupe
	}
	return r
}

// contractName and settings say how an operator would describe the provider.
func (k kind) contractName() string {
	switch k {
	case stripe:
		return "stripe/v1"
	case keyed:
		return "http/keyed"
	case none:
		return "http/none"
	}
	return "http/lookup"
}

func (k kind) settings() contract.Settings {
	if k == stripe {
		return contract.Settings{}
	}
	s := contract.Settings{Path: "/v1/refunds", Encoding: contract.EncodingForm, Reference: "id"}
	switch k {
	case keyed:
		s.Retention = 24 * time.Hour
	case lookUp, strict:
		within := lag
		s.Stamp = &contract.StampSetting{Field: "metadata[effectonce]", Path: "metadata.effectonce", Echoed: true}
		s.LookUp = &contract.LookUpSetting{
			Path: "/v1/refunds", Query: map[string]string{"payment_intent": "{body.payment_intent}", "limit": "100"}, Items: "data",
			Paging: contract.Paging{Kind: contract.PagingStartingAfter, Parameter: "starting_after", More: "has_more"}, Lag: &within,
		}
	}
	return s
}

func (k kind) operation() (*contract.Operation, error) {
	c, err := contract.Load(k.contractName())
	if err != nil {
		return nil, err
	}
	return c.Resolve("", k.settings())
}

// terms are what a policy and the contract make of it, after adjust.
func (k kind) terms(adjust ...func(*effectonce.Terms)) effectonce.Terms {
	operation, err := k.operation()
	if err != nil {
		panic(fmt.Sprintf("%s: %v", k, err))
	}
	t := effectonce.DefaultTerms()
	t.ResendWhenAbsent = k == lookUp
	for _, a := range adjust {
		a(&t)
	}
	return operation.Terms(t)
}

// refund is the ask of all tests: 480.00 back to the customer of payment pi_1.
func (k kind) refund(id string, adjust ...func(*effectonce.Terms)) ask {
	return ask{ID: id, Arguments: json.RawMessage(`{"payment_intent":"pi_1","amount":48000}`), Terms: k.terms(adjust...)}
}

// settled is how an operation with an ambiguous end must end, when there was an effect or not.
func (k kind) settled(effect bool) effectonce.State {
	if k == none || k == strict && !effect {
		return effectonce.StateReview
	}
	return effectonce.StateSucceeded
}

// effects is how many effects such an operation must have in the end.
func (k kind) effects(already bool) int {
	if already || k.settled(false) == effectonce.StateSucceeded {
		return 1
	}
	return 0
}
