package config

import (
	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/policy"
)

// breakerForm says when new calls to a provider pause (S7.9).
type breakerForm struct {
	Off      bool            `yaml:"off"`
	Unknown  int             `yaml:"unknown"`
	Of       int             `yaml:"of"`
	Within   policy.Duration `yaml:"within"`
	Pause    policy.Duration `yaml:"pause"`
	PauseMax policy.Duration `yaml:"pause_max"`
}

// breakerOfMax bounds how many attempts a breaker remembers.
const breakerOfMax = 1000

// breaker reads when new calls pause. What is not said takes the defaults of [effectonce.NewBreaker].
func (r *reading) breaker(form breakerForm) {
	o := effectonce.NewBreaker(effectonce.BreakerOptions{
		Unknown: form.Unknown, Of: form.Of, Within: form.Within.Std(), Pause: form.Pause.Std(), PauseMax: form.PauseMax.Std(),
	}).Options()
	wrong := func(name, detail, remedy string) {
		if !r.has("breaker", name) {
			r.on([]string{"breaker", name}, detail, remedy)
		}
	}
	switch {
	case form.Off:
		return
	case o.Of < 1 || o.Of > breakerOfMax:
		wrong("of", "is not between 1 and 1000", "say of how many attempts the unknown ones are counted, or leave it out for 10")
	case o.Unknown < 1 || o.Unknown > o.Of:
		wrong("unknown", "is not between 1 and of", "say how many of them have to end unknown, or leave it out for 8")
	case o.PauseMax < o.Pause:
		wrong("pause_max", "is shorter than pause", "leave it out for ten minutes")
	}
	o.Clock = nil
	r.config.Breaker = &o
}
