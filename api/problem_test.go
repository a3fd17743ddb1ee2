package api

import (
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// A refusal that says nothing itself still says what to do, and does not repeat what happened.
func TestEveryRefusalHasARemedy(t *testing.T) {
	t.Parallel()
	for _, k := range effectonce.Registry {
		p, _ := problemOf(&effectonce.Error{Code: k.Code})
		switch {
		case p.Remedy == "":
			t.Errorf("%s has no remedy", k.Code)
		case k.Status >= 400 && (p.Remedy == k.Help || p.Remedy == p.Detail):
			t.Errorf("the remedy of %s says what happened: %s", k.Code, p.Remedy)
		}
	}
	f := newFixture(t, nil)
	a := f.send("GET", "/v1/operations/"+strings.Repeat("0", 64), "").want(t, 404, "code=not_found")
	if remedy, _ := a.get("remedy").(string); !strings.Contains(remedy, "effectonce ops ls") {
		t.Errorf("the remedy for an unknown key is %q", remedy)
	}
}

// Durations are for people: milliseconds at the finest. A pause is never cut, what is granted is never stretched.
func TestDurationsAreRoundedToMilliseconds(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration][2]string{
		0:                                  {"", ""},
		-time.Second:                       {"", ""},
		200 * time.Microsecond:             {"200µs", "1ms"},
		1509876543:                         {"1.509s", "1.51s"},
		time.Hour - 19546*time.Microsecond: {"59m59.98s", "59m59.981s"},
		30 * time.Second:                   {"30s", "30s"},
	} {
		if got := [2]string{duration(d), pause(d)}; got != want {
			t.Errorf("%d is granted as %q and paused as %q, want %q", d, got[0], got[1], want)
		}
	}
}

// A key is the same in whatever case its digits are written.
func TestKeysInUpperCaseAreKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.send("POST", "/v1/claims", note).want(t, 201).key()
	upper := strings.ToUpper(key)
	f.send("GET", "/v1/operations/"+upper, "").want(t, 200, "key="+key)
	f.send("GET", "/v1/operations/"+upper+"/events", "").want(t, 200)
	f.send("POST", "/v1/claims/"+upper+"/heartbeat", `{"token":1}`).want(t, 200)
	f.send("POST", "/v1/claims/"+upper+"/complete", `{"token":1,"reference":"re_1"}`).want(t, 200, "key="+key)
	f.send("POST", "/v1/claims", strings.TrimSuffix(note, "}")+`,"supersedes":{"key":"`+upper+`","reason":"once more"}}`).want(t, 202, "supersedes="+key)
	if a := f.send("GET", "/v1/operations?q="+upper, "").want(t, 200); len(keysOf(a)) != 1 {
		t.Errorf("a search for the key finds %v", keysOf(a))
	}
}
