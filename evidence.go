package effectonce

// This file is S5.8: a definite success that comes from a worker that lost its lease is not lost, and changes nothing as
// an owner's write; later transitions consult it.

func (m *move) lateSuccess(c LateSuccess) error {
	op := m.t.From
	if c.End.Verdict != VerdictSucceeded {
		return invalid("verdict", "only a success is evidence", "")
	}
	m.t.Event.Actor, m.t.Event.Verdict, m.t.Event.Reference, m.t.Event.Attempt = c.Actor, VerdictSucceeded, c.End.Reference, c.Attempt
	ev := &Evidence{Attempt: c.Attempt, Epoch: c.Epoch, Reference: c.End.Reference, Result: c.End.Result, ResultDigest: c.End.Digest, Omitted: c.End.Omitted}

	switch op.State {
	case StateSucceeded:
		if op.Reference == ev.Reference && (ev.Reference != "" || op.ResultDigest == ev.ResultDigest) {
			return &Error{Code: CodeNotAllowed, Key: op.Key, Detail: "the success is recorded already"}
		}
		return m.contradict(ev, "duplicate: a late success names another effect")
	case StateFailed, StateAbandoned:
		return m.contradict(ev, "contradiction: a late success of an operation that ended "+string(op.State))
	case StatePending, "":
		return notAllowed(op, "evidence without an attempt")
	}

	if c.Epoch < op.Epoch {
		// A resend in a newer epoch has started: there may be two effects (S5.8).
		m.to.Evidence = ev
		m.to.Alarm = "duplicate: a late success of an earlier epoch"
		m.to.Reason = m.to.Alarm
		if op.State == StateUnknown || op.State == StateInProgress && !op.Open {
			m.release(StateReview, 0, m.to.Alarm)
		}
		return nil
	}
	m.to.Evidence = ev
	if op.State == StateInProgress && op.Open {
		m.t.Event.Reason = "kept until the open attempt ends"
		return nil
	}
	m.settleByEvidence()
	return nil
}

// settleByEvidence completes the operation with stored evidence, if there is any of the present epoch. Evidence of an older
// epoch means that a resend was under way besides: people decide.
func (m *move) settleByEvidence() bool {
	ev := m.to.Evidence
	if ev == nil {
		return false
	}
	if ev.Epoch < m.to.Epoch {
		m.release(StateReview, 0, m.to.Alarm)
		return true
	}
	m.succeed(ProofLate, ev.Result, ev.Reference, ev.Omitted, End{Digest: ev.ResultDigest})
	return true
}

// failOrEvidence fails the operation, unless evidence says that an earlier attempt succeeded.
func (m *move) failOrEvidence(f Failure, p Proof) error {
	if !m.settleByEvidence() {
		m.fail(f, p)
	}
	return nil
}

// contradicting raises an alarm if stored evidence names another effect than the success just recorded.
func (m *move) contradicting(op Operation) error {
	ev := op.Evidence
	if ev != nil && ev.Reference != m.to.Reference {
		m.to.Alarm = "duplicate: a late success names another effect"
	}
	return nil
}

// contradict stores evidence against a final state, which it never overrides, as an alarm to people.
func (m *move) contradict(ev *Evidence, alarm string) error {
	if m.t.From.Evidence != nil && m.t.From.Evidence.Reference == ev.Reference {
		return &Error{Code: CodeNotAllowed, Key: m.t.From.Key, Detail: "the contradiction is recorded already"}
	}
	m.to.Evidence = ev
	m.to.Alarm = alarm
	m.t.Event.Reason = alarm
	return nil
}
