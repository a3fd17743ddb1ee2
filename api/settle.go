package api

import (
	"context"
	"net/http"

	"github.com/effectonce/effectonce"
)

// settle records how the caller's attempt ended.
func (s *server) settle(ctx context.Context, key effectonce.Key, token int64, end effectonce.End) (reply, error) {
	return s.outcome(ctx)(s.guard.Settle(ctx, key, token, end))
}

func (s *server) notSent(c call[NotSent]) (reply, error) {
	end := effectonce.End{Verdict: effectonce.VerdictNotSent, Failure: effectonce.Failure{Code: "not_sent"}}
	if c.body.Throttled {
		end.Verdict, end.Failure.Code = effectonce.VerdictThrottled, "throttled"
	}
	if c.body.Error != nil {
		end.Failure = c.body.Error.failure()
	}
	if c.body.RetryAfter != "" {
		d, err := bounded("retry_after", c.body.RetryAfter, 0, TimeoutMax)
		if err != nil {
			return reply{}, err
		}
		end.RetryAfter = d
	}
	return s.settle(c.ctx, c.key, c.body.Token, end)
}

func (s *server) heartbeat(c call[Held]) (reply, error) {
	d, err := s.guard.Heartbeat(c.ctx, c.key, c.body.Token)
	if err == nil {
		return reply{status: http.StatusOK, body: Lease{LeaseFor: duration(d)}}, nil
	}
	if effectonce.CodeOf(err) != effectonce.CodeStaleToken {
		return reply{}, err
	}
	// Whoever lost the lease learns how the operation stands.
	o, loadErr := s.guard.Wait(c.ctx, c.key, 0)
	if loadErr != nil {
		return reply{}, err
	}
	return reply{}, &refused{err: err, outcome: o}
}

func (s *server) lookedUp(c call[LookedUp]) (reply, error) {
	b := c.body
	if b.Found != string(effectonce.FoundOne) && (b.Reference != "" || len(b.Result) > 0) {
		field := "reference"
		if b.Reference == "" {
			field = "result"
		}
		return reply{}, invalid(field, "belongs to found: one", "leave it out, or name what was found in detail")
	}
	claim, err := s.guard.LookedUp(c.ctx, c.key, b.Token, effectonce.Finding{Found: effectonce.Found(b.Found), Reference: b.Reference, Result: b.Result, Detail: b.Detail})
	if err != nil {
		if claim.Outcome, err = s.stands(c.ctx, claim.Outcome, err); err != nil {
			return reply{}, err
		}
		claim = standing(claim.Outcome)
	}
	if claim.Do == effectonce.TaskExecute {
		if err := s.given(c.ctx, claim.Operation.Run, claim); err != nil {
			return reply{}, err
		}
	}
	return s.answer(http.StatusOK, claim.Outcome, claimView(claim)), nil
}
