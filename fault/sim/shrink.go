package sim

import "slices"

// shrinkRunsMax bounds the replays of one shrinking.
const shrinkRunsMax = 4000

// Shrink takes choices out of a failing plan for as long as it still breaks the same rule, and returns the shortest plan
// found; rules are those to watch, as in [Replay]. A plan that does not fail is returned as it is.
func Shrink(p Plan, rules ...string) Plan {
	first := Replay(p, rules...).Failure
	if first == nil {
		return p
	}
	return shrink(p, func(p Plan) bool { return Replay(p, first.Rule).Failure != nil })
}

// shrink takes choices out of a plan for as long as it fails: large pieces first, then smaller ones, and single ones until
// none can be spared.
func shrink(p Plan, fails func(Plan) bool) Plan {
	best := p
	runs := 0
	spare := func(at, size int) bool {
		if runs >= shrinkRunsMax {
			return false
		}
		runs++
		shorter := Plan{Setting: p.Setting, Choices: slices.Concat(best.Choices[:at], best.Choices[at+size:])}
		if !fails(shorter) {
			return false
		}
		best = shorter
		return true
	}
	for size := max(len(p.Choices)/2, 1); ; {
		shorter := false
		for at := 0; at+size <= len(best.Choices); {
			if spare(at, size) {
				shorter = true
				continue
			}
			at++
		}
		switch {
		case size > 1:
			size /= 2
		case !shorter:
			return best
		}
	}
}
