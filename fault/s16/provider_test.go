//go:build unix

package s16_test

import (
	"context"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/provider"
)

// http is the production provider for a kind, against the twin.
func (s spec) http() (*provider.HTTP, error) {
	c, err := contract.Load(s.Kind.contractName())
	if err != nil {
		return nil, err
	}
	return provider.NewHTTP(provider.HTTPOptions{
		Contract: c, Settings: s.Kind.settings(), BaseURL: s.Twin, Now: s.clock().Now,
		Credential: func(context.Context) (string, error) { return "sk_test_s16", nil },
		Body:       map[string]any{"payment_intent": "{payment_intent}", "amount": "{amount}"},
	})
}

// intent renders the frozen request as whoever records an intent does (S3.10).
func (a ask) intent(p *provider.HTTP) (effectonce.Intent, error) {
	in := effectonce.Intent{Tool: "stripe.refund", ID: a.ID, Arguments: a.Arguments, Business: a.Business, Terms: a.Terms, ForgetAt: a.ForgetAt}
	if in.Business == nil {
		in.Business = in.Arguments
	}
	in.Terms.Managed = true
	request, err := p.Render(in.Business)
	in.Request, in.RequestScope = request, p.Scope()
	return in, err
}
