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
	runs := 0
	fails := func(choices []Choice) bool {
		if runs >= shrinkRunsMax {
			return false
		}
		runs++
		f := Replay(Plan{Setting: p.Setting, Choices: choices}, first.Rule).Failure
		return f != nil
	}
	best := p.Choices
	for size := max(len(best)/2, 1); size >= 1; size /= 2 {
		for again := true; again; {
			again = false
			for at := 0; at+size <= len(best); {
				shorter := slices.Concat(best[:at], best[at+size:])
				if fails(shorter) {
					best, again = shorter, true
					continue
				}
				at++
			}
			again = again && size == 1
		}
	}
	return Plan{Setting: p.Setting, Choices: best}
}
