package config

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/events"
)

// A register is what daemons with one store have told each other about the identities of a tool, or of a source's events, in one order
// for all of them. It is a run of the journal under a reserved tenant. Its steps are places, 1, 2, 3 …: whoever enters itself at the
// place after the last one that it has read knows, if it is the first there, that it has read everybody before it.
type register struct {
	store Operations
	run   string
}

func registerOfTool(store Operations, tool string) register {
	return register{store, "identities of " + tool}
}

func registerOfSource(store Operations, source string) register {
	return register{store, "events of " + source}
}

// registered is one identity of a register. The JSON form is stored.
type registered struct {
	// Identity is the digest of the identity in hex, Words the same for people.
	Identity string `json:"identity"`
	Words    string `json:"words"`
	// Policy is the version of the tool's policy; it names the identities that its operations have too.
	Policy string `json:"policy,omitempty"`
	// Cut says that the identities before this one ended with it.
	Cut bool `json:"cut,omitempty"`

	at       time.Time // by the store's clock
	problem  error     // why it cannot be read
	position int       // from 1
}

// entries reads the register.
func (r register) entries(ctx context.Context) ([]registered, error) {
	steps, err := r.store.Decisions(ctx, effectonce.ReservedTenant, r.run)
	if err != nil {
		return nil, err
	}
	all := make([]registered, len(steps))
	for i, d := range steps {
		dec := json.NewDecoder(bytes.NewReader(d.Arguments))
		dec.DisallowUnknownFields() // what a newer release says here may change what counts
		all[i].problem = dec.Decode(&all[i])
		all[i].at, all[i].position = d.At, i+1
	}
	return all, nil
}

// enter adds an entry at a place; false if somebody else was there first.
func (r register) enter(ctx context.Context, place int, e registered) (bool, error) {
	content, err := json.Marshal(e)
	if err != nil {
		return false, err
	}
	_, first, err := r.store.Decide(ctx, effectonce.Decision{Tenant: effectonce.ReservedTenant, Run: r.run, Step: strconv.Itoa(place), Arguments: content})
	return first, err
}

// alive are the entries that count: from the last cut on.
func alive(all []registered) []registered {
	for i, e := range slices.Backward(all) {
		if e.Cut {
			return all[i:]
		}
	}
	return all
}

// keepSource compares what identifies the events of a source with what the register says last, and enters it if enter says so. detail
// says why events that were delivered before would be new ones; "" if they are not, or that is accepted (S9.1).
func keepSource(ctx context.Context, store Operations, s events.Source, accepted, enter bool) (detail string, err error) {
	id := "its own id"
	if s.EventID != "" {
		id = strconv.Quote(s.EventID)
	}
	words := fmt.Sprintf("format %s, event_id %s", s.Format, id)
	digest := sha256.Sum256([]byte(words))
	is := registered{Identity: hex.EncodeToString(digest[:]), Words: words}
	r := registerOfSource(store, s.Name)
	for {
		all, err := r.entries(ctx)
		if err != nil {
			return "", err
		}
		if len(all) > 0 {
			switch last := all[len(all)-1]; {
			case last.problem == nil && last.Identity == is.Identity:
				return "", nil
			case accepted:
				is.Cut = true
			case last.problem != nil:
				return "the store says in a way that cannot be read here what identifies its events (" + last.problem.Error() + ")", nil
			default:
				return fmt.Sprintf("its events were identified by %s, and now by %s: an event that was delivered before and comes again would be another one, and be consumed again", last.Words, words), nil
			}
		}
		if !enter {
			return "", nil
		}
		if first, err := r.enter(ctx, len(all)+1, is); err != nil || first {
			return "", err
		}
	}
}
