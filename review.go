package effectonce

import "fmt"

// This file is S7.6: a person decides what the machine may not.

func (m *move) resolved(c Resolved) error {
	op := m.t.From
	if c.Person == "" {
		return invalid("person", "is missing", "say who decides")
	}
	if c.Reason == "" {
		return invalid("reason", "is missing", "say why; it goes into the audit")
	}
	if c.Version != op.Version {
		return &Error{Code: CodeStaleVersion, Key: op.Key, Field: "version", Detail: fmt.Sprintf("you saw version %d, it is version %d (%s) now", c.Version, op.Version, op.State), Remedy: "read it again and decide again"}
	}
	e := &m.t.Event
	e.Actor, e.Resolution, e.Reason, e.Reference, e.Risk = c.Person, c.Resolution, c.Reason, c.Reference, false

	switch c.Resolution {
	case ResolveApproved, ResolveRejected:
		return m.resolvedHold(c)
	case ResolveConfirmed, ResolveAbsentFail, ResolveAbsentResend, ResolveAbandoned:
	default:
		return invalid("resolution", fmt.Sprintf("%q is not a resolution", c.Resolution), "use confirmed, absent_fail, absent_resend or abandoned; for a held operation approved or rejected")
	}
	if op.State != StateReview {
		return notAllowed(op, "resolving")
	}

	switch c.Resolution {
	case ResolveConfirmed:
		if c.Reference == "" && len(c.Result) == 0 {
			return invalid("reference", "is missing", "name the effect that you confirm, or give its result")
		}
		m.succeed(ProofPerson, c.Result, c.Reference, "", End{})
	case ResolveAbandoned:
		m.settle(StateAbandoned, ProofPerson)
		m.to.Reason = c.Reason
	default:
		return m.resolvedAbsent(c)
	}
	return nil
}

func (m *move) resolvedAbsent(c Resolved) error {
	op := m.t.From
	if op.Evidence != nil {
		return &Error{Code: CodeNotAllowed, Key: op.Key, Field: "resolution", Detail: "evidence of a success is stored", Remedy: "confirm it, or abandon"}
	}
	early := m.now.Before(op.SettledBy())
	if early && !c.AcceptRisk {
		return &Error{Code: CodeNotAllowed, Key: op.Key, Field: "resolution",
			Detail:     "what was sent can still take effect",
			Remedy:     "wait until the settle time is over, or accept the risk on record (accept_risk)",
			RetryAfter: op.SettledBy().Sub(m.now)}
	}
	m.t.Event.Risk = early
	if c.Resolution == ResolveAbsentFail {
		m.fail(Failure{Code: "resolved_absent", Message: c.Reason}, ProofPerson)
		return nil
	}
	// In progress under a lease that is already over: whoever comes first takes it over, and line 5 lets it send once.
	m.to.Permission = &Permission{Person: c.Person, Reason: c.Reason, Risk: early, At: m.now}
	m.to.State = StateInProgress
	m.to.Token++
	m.to.Owner = ""
	m.to.DueAt = m.now
	m.to.Reason = "a person permitted one resend"
	return nil
}

func (m *move) resolvedHold(c Resolved) error {
	op := m.t.From
	if op.State != StatePending || op.Hold == HoldNone && c.Resolution == ResolveApproved {
		return notAllowed(op, "resolving a hold")
	}
	if c.Resolution == ResolveRejected {
		m.fail(Failure{Code: "rejected", Message: c.Reason}, ProofPerson)
		return nil
	}
	if c.Person == op.Actor {
		return &Error{Code: CodeForbidden, Key: op.Key, Field: "person", Detail: "nobody approves their own operation"}
	}
	m.to.Hold = HoldNone
	m.to.Reason = ""
	m.to.DueAt = m.now
	m.parkPending()
	return nil
}
