package fault

import (
	"sync"
	"time"
)

// Actions are what faults do. A nil field does the real thing, which is what tests of processes want; a simulator or a test
// in one process replaces it.
type Actions struct {
	// Crash ends the process at once: SIGKILL. A replacement must not return either (panic, runtime.Goexit).
	Crash func()
	// Stop stops the process until SIGCONT.
	Stop func()
	// Pause stands still for d.
	Pause func(d time.Duration)
	// Struck is told of each step before it acts, for logs; nil: nobody.
	Struck func(Step)
}

// strikes counts the passages of one decorator's points and carries the plan out.
type strikes struct {
	plan    Plan
	actions Actions

	mu     sync.Mutex
	passed []int
}

func newStrikes(plan Plan, a Actions) *strikes {
	if a.Crash == nil {
		a.Crash = crash
	}
	if a.Stop == nil {
		a.Stop = stop
	}
	if a.Pause == nil {
		a.Pause = time.Sleep
	}
	if a.Struck == nil {
		a.Struck = func(Step) {}
	}
	return &strikes{plan: plan, actions: a, passed: make([]int, len(plan))}
}

// at passes one side of a point. It returns the step of an error, if one strikes.
func (s *strikes) at(w When, p Point, detail string) (failed Step, ok bool) {
	for _, step := range s.due(w, p, detail) {
		s.actions.Struck(step)
		switch step.What {
		case Crash:
			s.actions.Crash()
		case Stop:
			s.actions.Stop()
		case Pause:
			s.actions.Pause(step.For)
		case Error:
			failed, ok = step, true
		}
	}
	return failed, ok
}

func (s *strikes) due(w When, p Point, detail string) []Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []Step
	for i, step := range s.plan {
		if !step.passes(w, p, detail) {
			continue
		}
		s.passed[i]++
		if step.counts(s.passed[i]) {
			due = append(due, step)
		}
	}
	return due
}
