package general

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/effectonce/effectonce/contract"
)

// Behaviour is what a twin does beyond its contract, as its YAML file says it. Every field can be left out.
type Behaviour struct {
	// Contract names the contract that the file belongs to.
	Contract string `yaml:"contract"`
	// ServerTime is how long a write takes.
	ServerTime time.Duration `yaml:"server_time"`
	// Window is for how long a key is remembered where the contract's retention is no time; 0 stands for 24 hours.
	Window time.Duration `yaml:"window"`
	// LookUpLag is how long a new resource is not shown by look-ups.
	LookUpLag time.Duration `yaml:"look_up_lag"`
	// Page is how many items a page holds, 0 for 100; Limit is the parameter by which a request asks for fewer.
	Page  int    `yaml:"page"`
	Limit string `yaml:"limit"`
	// Credential is what a request's Authorization header has to be; a star at the end stands for any ending. Empty: anything will do.
	Credential string `yaml:"credential"`
	// Root is the root element of answers in XML.
	Root       string          `yaml:"root"`
	Operations map[string]Play `yaml:"operations"`
	// Errors are the answers of all operations, by case; see [Cases].
	Errors map[string]Answer `yaml:"errors"`
}

// Play is how one operation is played. Templates are over the request ({body.x}, {query.x}, {path.x}, {header.x}) and {id}, {n}, {uuid}, {now}
// (seconds), {now_rfc3339}, {key} and {stamp}; {name:int} is a number.
type Play struct {
	// ID is the template of a new resource's id.
	ID string `yaml:"id"`
	// Status and Header are those of a success; ReplayStatus is the status of a replayed one, 0 for the same.
	Status       int               `yaml:"status"`
	Header       map[string]string `yaml:"header"`
	ReplayStatus int               `yaml:"replay_status"`
	// Resource is what was created; Answer the success around it, with {resource}; Item an item of a list, with {resource}; List what a list's
	// answer holds besides its items.
	Resource any            `yaml:"resource"`
	Answer   any            `yaml:"answer"`
	Item     any            `yaml:"item"`
	List     map[string]any `yaml:"list"`
	// Unique is the template of what can be there only once. Again says what a second request for it gets: exists (an error, the default),
	// or same (a success without an effect, if it asks for the same).
	Unique string `yaml:"unique"`
	Again  string `yaml:"again"`
	// Requires are paths of {body.x} and the like without which a request is not valid; Declines the values with which it is declined.
	Requires []string          `yaml:"requires"`
	Declines map[string]string `yaml:"declines"`
	// Compares is what is compared under a key (full, vars, none), KeepsErrors whether a declined or broken request is on record under it, both where
	// the contract does not say.
	Compares    string            `yaml:"compares"`
	KeepsErrors bool              `yaml:"keeps_errors"`
	Errors      map[string]Answer `yaml:"errors"`
}

// Answer is an answer with a template for its body: a tree, or text as it is.
type Answer struct {
	Status int               `yaml:"status"`
	Header map[string]string `yaml:"header"`
	Body   any               `yaml:"body"`
	Text   string            `yaml:"text"`
}

// Cases are what an error answer can be about.
var Cases = []string{
	CaseMismatch, CaseInFlight, CaseExpired, CaseThrottled, CaseInvalid, CaseDeclined, CaseExists, CaseUnauthorised, CaseMissing, CaseBroken,
}

// The cases.
const (
	CaseMismatch     = "mismatch"     // the key is on record with another request
	CaseInFlight     = "in_flight"    // the key's first request is being processed
	CaseExpired      = "expired"      // the key is too old
	CaseThrottled    = "throttled"    // too many requests
	CaseInvalid      = "invalid"      // the request is not valid
	CaseDeclined     = "declined"     // it was processed and refused
	CaseExists       = "exists"       // what may be there once is there already
	CaseUnauthorised = "unauthorised" // the credential is wrong
	CaseMissing      = "missing"      // there is no such resource or path
	CaseBroken       = "broken"       // a server error
)

// ParseBehaviour reads a behaviour file; file is its name, for messages. It refuses fields and cases that are not known.
func ParseBehaviour(file string, data []byte) (Behaviour, error) {
	var b Behaviour
	if err := yaml.UnmarshalWithOptions(data, &b, yaml.Strict()); err != nil {
		return b, fmt.Errorf("%s: %w", file, err)
	}
	wrong := badCases("errors", b.Errors)
	for _, name := range slices.Sorted(maps.Keys(b.Operations)) {
		p := b.Operations[name]
		wrong = append(wrong, badCases("operations."+name+".errors", p.Errors)...)
		if p.Again != "" && p.Again != "exists" && p.Again != "same" {
			wrong = append(wrong, fmt.Errorf("operations.%s.again: %q is neither exists nor same", name, p.Again))
		}
		if p.Compares != "" && p.Compares != "full" && p.Compares != "vars" && p.Compares != "none" {
			wrong = append(wrong, fmt.Errorf("operations.%s.compares: %q is none of full, vars, none", name, p.Compares))
		}
	}
	if len(wrong) > 0 {
		return b, fmt.Errorf("%s: %w", file, errors.Join(wrong...))
	}
	return b, nil
}

func badCases(at string, answers map[string]Answer) (wrong []error) {
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		if !slices.Contains(Cases, name) {
			wrong = append(wrong, fmt.Errorf("%s.%s is no case: they are %s", at, name, strings.Join(Cases, ", ")))
		}
		if s := answers[name].Status; s < 200 || s > 599 {
			wrong = append(wrong, fmt.Errorf("%s.%s.status must be from 200 to 599", at, name))
		}
	}
	return wrong
}

// fits refuses a behaviour that speaks of what the contract does not have.
func (b Behaviour) fits(c *contract.Contract) error {
	if b.Contract != "" && b.Contract != c.Name {
		return fmt.Errorf("the behaviour is that of contract %s, not of %s", b.Contract, c.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(b.Operations)) {
		if o := c.Operations[name]; o == nil || o.Effect == contract.EffectRead {
			return fmt.Errorf("contract %s has no operation %q with an effect", c.Name, name)
		}
	}
	return nil
}

//go:embed providers/*.yaml
var embedded embed.FS

var builtin = sync.OnceValue(func() map[string]Behaviour {
	names, err := fs.Glob(embedded, "providers/*.yaml")
	if err != nil {
		panic(err)
	}
	all := map[string]Behaviour{}
	for _, name := range names {
		data, err := embedded.ReadFile(name)
		if err != nil {
			panic(err)
		}
		b, err := ParseBehaviour(name, data)
		if err != nil {
			// The files are part of the program and tested with it.
			panic("twin: " + err.Error())
		}
		all[strings.TrimSuffix(path.Base(name), ".yaml")] = b
	}
	return all
})

// Builtin returns the behaviours that come with the program, by the name of their file ("ec2").
func Builtin() map[string]Behaviour { return maps.Clone(builtin()) }
