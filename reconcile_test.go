package effectonce_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/effectonce/effectonce"
)

// everySituation calls f with each point of the decision table's input space.
func everySituation(f func(effectonce.Situation)) int {
	founds := []effectonce.Found{effectonce.FoundNone, effectonce.FoundOne, effectonce.FoundMany, effectonce.FoundAbsent, effectonce.FoundUnavailable}
	var bools []int
	typ := reflect.TypeFor[effectonce.Situation]()
	for i := range typ.NumField() {
		if typ.Field(i).Type.Kind() == reflect.Bool {
			bools = append(bools, i)
		}
	}
	n := 0
	for bits := range 1 << len(bools) {
		var s effectonce.Situation
		v := reflect.ValueOf(&s).Elem()
		for j, field := range bools {
			v.Field(field).SetBool(bits>>j&1 == 1)
		}
		for _, found := range founds {
			s.Found = found
			f(s)
			n++
		}
	}
	return n
}

// S7.3: the whole input space, against the table read line by line, and the safety rules that no line may break.
func TestReconcileOverItsWholeInputSpace(t *testing.T) {
	t.Parallel()
	lines := make(map[int]int)
	n := everySituation(func(s effectonce.Situation) {
		got := effectonce.Reconcile(s)
		if want := tableLine(s); got.Line != want {
			t.Fatalf("%+v: line %d, the table says %d", s, got.Line, want)
		}
		lines[got.Line]++
		if problem := unsafe(s, got); problem != "" {
			t.Fatalf("%+v -> %+v: %s", s, got, problem)
		}
		if got.Reason == "" {
			t.Fatalf("%+v: no reason for the person who reads it", s)
		}
	})
	for line := 1; line <= 12; line++ {
		if lines[line] == 0 {
			t.Errorf("no input reaches line %d", line)
		}
	}
	t.Logf("%d situations", n)
}

// tableLine is the table of S7.3 as the specification has it, one condition a line.
func tableLine(s effectonce.Situation) int {
	absent := s.Found == effectonce.FoundAbsent
	// Every start of an attempt consults the evidence (S5.8): it comes before whatever sends.
	switch {
	case s.ScopeChanged:
		return 1
	case s.Evidence, s.OlderEvidence && s.Found == effectonce.FoundOne:
		return 3
	case s.OlderEvidence:
		return 12
	}
	conditions := []bool{
		s.ScopeChanged,
		s.Convergent && s.AttemptsLeft,
		s.Found == effectonce.FoundOne || s.Evidence,
		s.Found == effectonce.FoundMany,
		s.Permission,
		s.InFlight && s.TimeLeft,
		s.Keyed && s.WindowOpen && s.AttemptsLeft && !s.OnlyReplay,
		!s.SettleOver || s.LookUp && absent && !s.Conclusive,
		s.Found == effectonce.FoundUnavailable && s.TimeLeft,
		s.LookUp && absent && s.Conclusive && s.AttemptsLeft && s.ResendWhenAbsent,
		s.NeverSent && (!s.AttemptsLeft || !s.TimeLeft),
		true,
	}
	for i, c := range conditions {
		if c {
			return i + 1
		}
	}
	return 0
}

// unsafe says which rule a ruling breaks, if any.
func unsafe(s effectonce.Situation, r effectonce.Ruling) string {
	found := s.Found == effectonce.FoundOne
	switch r.Do {
	case effectonce.DoSend:
		switch {
		case s.Evidence, s.OlderEvidence:
			return "sends although a late success is on record (S5.8)"
		case s.Convergent, s.Permission && r.NewEpoch:
		case found, s.Found == effectonce.FoundMany:
			return "sends although an effect is known (I1)"
		case s.Keyed && s.WindowOpen && !r.NewEpoch:
		case s.ResendWhenAbsent && s.Conclusive && s.SettleOver && s.Found == effectonce.FoundAbsent && r.Risk:
		default:
			return "sends outside the window without permission or accepted risk (I8)"
		}
		if s.ScopeChanged {
			return "sends in a scope that remembers nothing (S3.10)"
		}
	case effectonce.DoComplete:
		if !found && !s.Evidence {
			return "succeeds without evidence (I2)"
		}
	case effectonce.DoFail:
		if !s.NeverSent {
			return "fails although something may have been sent (I3)"
		}
	case effectonce.DoWait:
		if !s.TimeLeft && s.SettleOver && (!s.LookUp || s.Conclusive || s.Found != effectonce.FoundAbsent) {
			return "waits without a bound (I11)"
		}
	case effectonce.DoReview:
	default:
		return fmt.Sprintf("%q is no ruling", r.Do)
	}
	return ""
}
