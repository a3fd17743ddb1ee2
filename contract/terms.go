package contract

import "github.com/effectonce/effectonce"

// Terms fills what the provider promises into terms that a policy has made: Keyed, Retention, Forever, KeyForm, LookUp, Lag, LagUnknown,
// Processing and Contract. What base says about these is overwritten, but for a longer Processing. Unknown fails closed (S14.5): without a
// known retention the key justifies no resend, and without a known lag absence is never conclusive.
func (o *Operation) Terms(base effectonce.Terms) effectonce.Terms {
	t := base
	t.Contract = o.Version
	if t.Class == "" && o.Effect == EffectConvergent {
		t.Class = effectonce.ClassConvergent
	}
	t.Keyed = o.Key.Known() && o.Effect == EffectKeyed
	t.KeyForm = effectonce.KeyForm{}
	t.Retention, t.Forever = 0, false
	if t.Keyed {
		t.KeyForm = o.Key.Form
		if o.Retention.Known() && o.Retention.BodyBytesMax == 0 {
			t.Retention, t.Forever = o.Retention.AtLeast, o.Retention.Forever
		}
	}
	t.LookUp, t.Lag, t.LagUnknown = o.LookUp != nil, 0, false
	if t.LookUp {
		t.LagUnknown = !o.LookUp.Conclusive()
		if !t.LagUnknown {
			t.Lag = o.LookUp.Lag.AtMost
		}
	}
	if o.Processing.Known() {
		t.Processing = max(t.Processing, o.Processing.AtMost)
	}
	if l := o.LookUp; l != nil && l.Horizon > 0 && l.Horizon < t.Within+t.LeaseCap()+t.Settle()+t.Lag {
		// The view may end before the effect that is looked for.
		t.LagUnknown, t.Lag = true, 0
	}
	return t
}

// TermsOf is Terms for one request: a promise that holds for small requests only is made only to those.
func (o *Operation) TermsOf(base effectonce.Terms, r Request) effectonce.Terms {
	if o.Retention.BodyBytesMax == 0 || len(r.Body) > o.Retention.BodyBytesMax {
		return o.Terms(base)
	}
	unbounded := *o
	unbounded.Retention.BodyBytesMax = 0
	return unbounded.Terms(base)
}
