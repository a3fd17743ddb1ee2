package config

import (
	"encoding/json"
	"strconv"

	"github.com/effectonce/effectonce/policy"
)

// The structs of this file are the form of effectonce.yaml, one field for each name in it.

type fileForm struct {
	Listen    string                  `yaml:"listen"`
	Store     string                  `yaml:"store"`
	Contracts string                  `yaml:"contracts"`
	Providers map[string]providerForm `yaml:"providers"`
	Tools     map[string]toolForm     `yaml:"tools"`
	Inbox     map[string]sourceForm   `yaml:"inbox"`
	Outbox    []routeForm             `yaml:"outbox"`
	Routes    []egressForm            `yaml:"routes"`
	Breaker   breakerForm             `yaml:"breaker"`
}

type providerForm struct {
	Contract   string `yaml:"contract"`
	BaseURL    string `yaml:"base_url"`
	Credential string `yaml:"credential"`
	APIVersion string `yaml:"api_version"`
	Account    string `yaml:"account"`
	// What follows is for generic contracts, which leave it to the operator.
	Encoding   string          `yaml:"encoding"`
	KeyHeader  string          `yaml:"key_header"`
	Retention  memory          `yaml:"retention"`
	Processing policy.Duration `yaml:"processing"`
	Lag        lag             `yaml:"lag"`
	Rejected   []int           `yaml:"rejected"`
	Throttled  []int           `yaml:"throttled"`
}

type callForm struct {
	Provider  string            `yaml:"provider"`
	Operation string            `yaml:"operation"`
	Timeout   policy.Duration   `yaml:"timeout"`
	Body      json.RawMessage   `yaml:"body"`
	Query     map[string]string `yaml:"query"`
	Headers   map[string]string `yaml:"headers"`
	// What follows is for generic contracts.
	Method    string      `yaml:"method"`
	Path      string      `yaml:"path"`
	Reference string      `yaml:"reference"`
	Stamp     *stampForm  `yaml:"stamp"`
	LookUp    *lookUpForm `yaml:"look_up"`
	Ensure    *ensureForm `yaml:"ensure"`
}

type ensureForm struct {
	Observe observeForm     `yaml:"observe"`
	Met     json.RawMessage `yaml:"met"`
	Absent  bool            `yaml:"absent"`
	Apply   applyForm       `yaml:"apply"`
}

type observeForm struct {
	Path  string            `yaml:"path"`
	Query map[string]string `yaml:"query"`
}

type applyForm struct {
	Operation string            `yaml:"operation"`
	Method    string            `yaml:"method"`
	Path      string            `yaml:"path"`
	Query     map[string]string `yaml:"query"`
	Headers   map[string]string `yaml:"headers"`
	Body      json.RawMessage   `yaml:"body"`
}

type stampForm struct {
	In     string `yaml:"in"`
	Field  string `yaml:"field"`
	Path   string `yaml:"path"`
	Echoed bool   `yaml:"echoed"`
}

type lookUpForm struct {
	Path      string            `yaml:"path"`
	Query     map[string]string `yaml:"query"`
	Items     string            `yaml:"items"`
	Stamp     string            `yaml:"stamp"`
	Reference string            `yaml:"reference"`
	Paging    pagingForm        `yaml:"paging"`
	Lag       lag               `yaml:"lag"`
}

type pagingForm struct {
	Kind      string `yaml:"kind"`
	Parameter string `yaml:"parameter"`
	More      string `yaml:"more"`
	Next      string `yaml:"next"`
	First     *int   `yaml:"first"`
}

type toolForm struct {
	Class            string                  `yaml:"class"`
	Scope            string                  `yaml:"scope"`
	IntentID         string                  `yaml:"intent_id"`
	Arguments        map[string]argumentForm `yaml:"arguments"`
	Drop             []string                `yaml:"drop"`
	Resource         string                  `yaml:"resource"`
	Call             callForm                `yaml:"call"`
	Contract         *effectForm             `yaml:"contract"`
	Retry            retryForm               `yaml:"retry"`
	Lease            leaseForm               `yaml:"lease"`
	Settle           settleForm              `yaml:"settle"`
	Twins            twinsForm               `yaml:"twins"`
	Retention        retentionForm           `yaml:"retention"`
	Limits           []limitForm             `yaml:"limits"`
	Compensate       *compensateForm         `yaml:"compensate"`
	Approval         bool                    `yaml:"approval"`
	AcceptReview     bool                    `yaml:"accept_review"`
	ResendWhenAbsent bool                    `yaml:"resend_when_absent"`
	Expiry           policy.Duration         `yaml:"expiry"`
}

type argumentForm struct {
	Kind      string          `yaml:"kind"`
	Normalise normalisers     `yaml:"normalise"`
	Default   json.RawMessage `yaml:"default"`
	OneOf     choices         `yaml:"one_of"`
	Required  bool            `yaml:"required"`
}

type effectForm struct {
	Keyed     bool    `yaml:"keyed"`
	Retention memory  `yaml:"retention"`
	KeyForm   keyForm `yaml:"key_form"`
	LookUp    bool    `yaml:"look_up"`
	Lag       lag     `yaml:"lag"`
}

type keyForm struct {
	Encoding  string `yaml:"encoding"`
	LengthMax int    `yaml:"length_max"`
	Prefix    string `yaml:"prefix"`
}

type retryForm struct {
	Attempts   int             `yaml:"attempts"`
	Within     policy.Duration `yaml:"within"`
	Backoff    policy.Duration `yaml:"backoff"`
	BackoffMax policy.Duration `yaml:"backoff_max"`
}

type leaseForm struct {
	Grace     policy.Duration `yaml:"grace"`
	Heartbeat policy.Duration `yaml:"heartbeat"`
}

type settleForm struct {
	Pause      policy.Duration `yaml:"pause"`
	Transit    policy.Duration `yaml:"transit"`
	Processing policy.Duration `yaml:"processing"`
	Margin     policy.Duration `yaml:"margin"`
}

type twinsForm struct {
	On     []string        `yaml:"on"`
	Within policy.Duration `yaml:"within"`
	Do     string          `yaml:"do"`
}

type retentionForm struct {
	Result   policy.Duration `yaml:"result"`
	Identity lifetime        `yaml:"identity"`
	Run      policy.Duration `yaml:"run"`
}

type identityForm struct {
	For    policy.Duration `yaml:"for"`
	Period string          `yaml:"period"`
}

type compensateForm struct {
	Tool      string          `yaml:"tool"`
	Arguments json.RawMessage `yaml:"arguments"`
}

type limitForm struct {
	Name   string          `yaml:"name"`
	Amount counted         `yaml:"amount"`
	Max    counted         `yaml:"max"`
	Per    policy.Duration `yaml:"per"`
}

// counted is a whole number, or a template that gives one.
type counted string

func (s *counted) decode(c *check, n *node, path []string) {
	if n.shape == shapeNumber {
		*s = counted(n.text)
		return
	}
	if n.shape != shapeText {
		c.at(n, field(path), "is "+n.shape.String()+" where a whole number is needed", `write 50000, or "{amount.minor}"`)
		return
	}
	*s = counted(n.text)
}

// lifetime is forever, or a time after the end of a business period: {for: 400d, period: "{month}"}.
type lifetime struct{ finite *identityForm }

func (l *lifetime) decode(c *check, n *node, path []string) {
	const remedy = `write forever, or {for: 400d, period: "{month}"}`
	switch {
	case n.shape == shapeText && n.text == "forever":
	case n.shape == shapeMap:
		l.finite = &identityForm{}
		c.decode(n, valueOf(l.finite), path)
	case n.shape == shapeText, n.shape == shapeNumber:
		c.at(n, field(path), "is no time by itself: an intent that is forgotten could execute again, unless it says of what period it is", remedy)
	default:
		c.at(n, field(path), "is "+n.shape.String()+" where a time is needed", remedy)
	}
}

// memory is a duration, or the word forever.
type memory struct {
	forever bool
	span    policy.Duration
}

func (m *memory) decode(c *check, n *node, path []string) {
	if n.shape == shapeText && n.text == "forever" {
		m.forever = true
		return
	}
	if n.shape == shapeNumber {
		c.at(n, field(path), "is a number without a unit", "write a duration such as 24h or 30d, or forever")
		return
	}
	if !c.is(n, shapeText, path) {
		return
	}
	d, err := policy.ParseDuration(n.text)
	if err != nil {
		c.at(n, field(path), err.Error(), "write a duration such as 24h or 30d, or forever")
		return
	}
	m.span = d
}

// choices are the values that an argument may have. A list that allows nothing is refused, rather than taken for one that says
// nothing.
type choices []json.RawMessage

func (s *choices) decode(c *check, n *node, path []string) {
	if !c.is(n, shapeList, path) {
		return
	}
	if len(n.items) == 0 {
		c.at(n, field(path), "allows nothing", "name the values that are allowed, or leave it out")
		return
	}
	for i, item := range n.items {
		if item.shape == shapeNull {
			c.at(item, field(join(path, strconv.Itoa(i))), "is nothing", "write a value")
			continue
		}
		if raw := c.raw(item, join(path, strconv.Itoa(i))); raw != nil {
			*s = append(*s, raw)
		}
	}
}

// lag is how far a view may be behind: nil where nothing was said, which is not the same as 0s.
type lag struct{ span *policy.Duration }

func (l *lag) decode(c *check, n *node, path []string) {
	if n.shape == shapeText && n.text == "0s" {
		l.span = new(policy.Duration)
		return
	}
	var d policy.Duration
	c.duration(n, valueOf(&d), path)
	if d > 0 {
		l.span = &d
	}
}

// normalisers is what stands behind normalise: one name, a list of names and maps, or a map with one name and what it
// takes: {capture: "order-([0-9]+)"}, {amount: {currency: currency}}.
type normalisers []policy.Normaliser

type amountForm struct {
	Currency string `yaml:"currency"`
	Code     string `yaml:"code"`
	Unit     string `yaml:"unit"`
	Negative bool   `yaml:"negative"`
}

func (s *normalisers) decode(c *check, n *node, path []string) {
	if n.shape != shapeList {
		s.step(c, n, path)
		return
	}
	for _, item := range n.items {
		s.step(c, item, path)
	}
}

func (s *normalisers) step(c *check, n *node, path []string) {
	switch {
	case n.shape == shapeText:
		*s = append(*s, policy.Normaliser{Name: n.text})
	case n.shape == shapeMap && len(n.entries) == 1:
		s.withArgument(c, n.entries[0], path)
	case n.shape == shapeMap:
		c.at(n, field(path), "has more or less than one normaliser in a map", "write a list: [trim, {capture: \"...\"}]")
	default:
		c.at(n, field(path), "is "+n.shape.String()+" where a normaliser is needed", "write a name, a list of names, or {amount: {currency: currency}}")
	}
}

func (s *normalisers) withArgument(c *check, e entry, path []string) {
	step := policy.Normaliser{Name: e.name}
	inner := join(path, e.name)
	switch {
	case e.name == "amount":
		var form amountForm
		c.decode(e.value, valueOf(&form), inner)
		step.Amount = &policy.Amount{Currency: form.Currency, Code: form.Code, Unit: form.Unit, Negative: form.Negative}
	case c.is(e.value, shapeText, inner):
		step.Argument = e.value.text
	default:
		return
	}
	*s = append(*s, step)
}
