package sim

import (
	"flag"
	"testing"
)

var full = flag.Bool("sim.full", false, "enumerate with a longer clock; takes many minutes")

// S5.1: all schedules of two workers with up to two crashes, for each kind of provider. Within the test's minute the clock
// goes as far as the table says; -sim.full goes beyond the window of every attempt.
func TestEnumerate(t *testing.T) {
	t.Parallel()
	for _, k := range Kinds {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			for crashes, ticks := range []int{5, 4, 3} {
				s := Small{Setting: SmallSetting(k), Ticks: ticks, Calls: 1, Crashes: crashes, StatesMax: 100000}
				tally := Enumerate(s)
				t.Log(crashes, ticks, tally)
				if tally.Failure != nil {
					t.Fatal(tally.Failure)
				}
			}
		})
	}
}
