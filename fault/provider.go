package fault

import (
	"context"
	"fmt"
	"net/http"

	"github.com/effectonce/effectonce"
)

// Provider decorates a provider with the plan's faults at call and lookup. An error makes a call's end unknown and a look-up
// unavailable; before the point the provider was not asked, which its caller cannot know.
func Provider(p effectonce.Provider, plan Plan, actions Actions) effectonce.Provider {
	return &faultyProvider{Provider: p, strikes: newStrikes(plan, actions)}
}

type faultyProvider struct {
	effectonce.Provider
	strikes *strikes
}

// Call implements [effectonce.Provider].
func (p *faultyProvider) Call(ctx context.Context, call effectonce.Call) effectonce.End {
	if step, ok := p.strikes.at(Before, PointCall, ""); ok {
		return lost(step)
	}
	end := p.Provider.Call(ctx, call)
	if step, ok := p.strikes.at(After, PointCall, ""); ok {
		return lost(step)
	}
	return end
}

// LookUp implements [effectonce.Provider].
func (p *faultyProvider) LookUp(ctx context.Context, call effectonce.Call) effectonce.Finding {
	if step, ok := p.strikes.at(Before, PointLookUp, ""); ok {
		return effectonce.Finding{Found: effectonce.FoundUnavailable, Detail: "fault plan: " + step.String()}
	}
	finding := p.Provider.LookUp(ctx, call)
	if step, ok := p.strikes.at(After, PointLookUp, ""); ok {
		return effectonce.Finding{Found: effectonce.FoundUnavailable, Detail: "fault plan: " + step.String()}
	}
	return finding
}

func lost(step Step) effectonce.End {
	return effectonce.End{
		Verdict: effectonce.VerdictUnknown,
		Failure: effectonce.Failure{Code: "fault", Message: "fault plan: " + step.String()},
	}
}

// Transport decorates a round-tripper with the plan's faults at send. An error before it sends nothing; after it, the request
// was answered and the answer is thrown away. A nil next means http.DefaultTransport.
func Transport(next http.RoundTripper, plan Plan, actions Actions) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &faultyTransport{next: next, strikes: newStrikes(plan, actions)}
}

type faultyTransport struct {
	next    http.RoundTripper
	strikes *strikes
}

// RoundTrip implements [http.RoundTripper].
func (t *faultyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if step, ok := t.strikes.at(Before, PointSend, r.Method); ok {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, fmt.Errorf("fault plan: %s", step)
	}
	response, err := t.next.RoundTrip(r)
	if step, ok := t.strikes.at(After, PointSend, r.Method); ok {
		if err == nil {
			_ = response.Body.Close()
		}
		return nil, fmt.Errorf("fault plan: %s", step)
	}
	return response, err
}
