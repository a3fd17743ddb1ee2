package sim

import (
	"flag"
	"fmt"
	"testing"
)

var (
	full   = flag.Bool("sim.full", false, "enumerate up to the end of every window, with lost messages, refusals and failed look-ups too; takes hours")
	states = flag.Int("sim.states", 0, "how many states an enumeration may see; 0 for no limit")
)

// smalls are the settings whose schedules are all walked through, within the minute that a test may take. What bounds them
// is the clock: it moves by so many ticks while everything can happen in every order; then everything settles in one order, the
// clock moving on. Without crashes the clock goes further, beyond take-over, settle time, lag and window of a second attempt.
var smalls = []Small{
	{Setting: SmallSetting(Keyed), Crashes: 2, Ticks: 3},
	{Setting: SmallSetting(KeyedStored), Crashes: 2, Ticks: 2, Breaks: 1},
	{Setting: SmallSetting(KeyedLookUp), Crashes: 2, Ticks: 2},
	{Setting: SmallSetting(LookUpResend), Crashes: 2, Ticks: 4},
	{Setting: SmallSetting(LookUpOnly), Crashes: 2, Ticks: 3, Blind: 1},
	{Setting: SmallSetting(Neither), Crashes: 2, Ticks: 6, Resends: 1},
	{Setting: SmallSetting(Keyed), Ticks: 5},
	{Setting: SmallSetting(LookUpResend), Ticks: 9},
	{Setting: SmallSetting(Neither), Ticks: 9, Losses: 1, Resends: 1},
}

// S5.1: all schedules of two workers with up to two crashes, for each kind of provider.
func TestEnumerate(t *testing.T) {
	t.Parallel()
	all := smalls
	if *full {
		all = nil
		for _, k := range Kinds {
			all = append(all, Small{Setting: SmallSetting(k), Crashes: 2, Ticks: 10, Losses: 1, Blind: 1, Refusals: 1, Breaks: 1, Resends: 1, StatesMax: *states})
		}
	}
	for _, s := range all {
		s.Calls = 1
		if raced {
			s.Ticks, s.Crashes = 1, min(s.Crashes, 1)
		}
		t.Run(fmt.Sprintf("%s,_%d_crashes,_%d_ticks", s.Setting.Kind, s.Crashes, s.Ticks), func(t *testing.T) {
			t.Parallel()
			tally := Enumerate(s)
			t.Log(tally)
			if tally.Failure != nil {
				t.Fatal(tally.Failure)
			}
			if tally.Mistaken != 0 {
				t.Errorf("%d of %d states that were taken for equal are not", tally.Mistaken, tally.Audited)
			}
			if !tally.Complete && !*full {
				t.Error("states were left out")
			}
		})
	}
}
