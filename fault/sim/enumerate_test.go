package sim

import "testing"

// S5.1: all schedules of two workers with up to two crashes, for each kind of provider.
func TestEnumerate(t *testing.T) {
	t.Parallel()
	for _, k := range Kinds {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			s := Small{Setting: SmallSetting(k), Ticks: 12, Calls: 1, Crashes: 2, StatesMax: 50000}
			tally := Enumerate(s)
			t.Log(tally)
			if tally.Failure != nil {
				t.Fatal(tally.Failure)
			}
		})
	}
}
