package contract

import "github.com/effectonce/effectonce"

// Terms fills what the provider promises into terms that a policy has made: Keyed, Retention, Forever, KeyForm, LookUp, Lag, LagUnknown,
// Processing and Contract. What base says about these is overwritten, but for a longer Processing. Unknown fails closed (S14.5): without a
// known retention the key justifies no resend, and without a known lag absence is never conclusive.
func (o *Operation) Terms(base effectonce.Terms) effectonce.Terms {
	t := base
	t.Contract = o.Version
	t.Keyed = o.Key.Known()
	t.KeyForm = effectonce.KeyForm{}
	t.Retention, t.Forever = 0, false
	if t.Keyed {
		t.KeyForm = o.Key.Form
		if o.Retention.Known() {
			t.Retention, t.Forever = o.Retention.AtLeast, o.Retention.Forever
		}
	}
	t.LookUp, t.Lag, t.LagUnknown = o.LookUp != nil, 0, false
	if t.LookUp {
		t.LagUnknown = !o.LookUp.Lag.Known()
		if !t.LagUnknown {
			t.Lag = o.LookUp.Lag.AtMost
		}
	}
	if o.Processing.Known() {
		t.Processing = max(t.Processing, o.Processing.AtMost)
	}
	return t
}
