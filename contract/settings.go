package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// Settings are the facts that a generic contract leaves to the operator of an installation, who vouches for them. The zero value
// of a field says nothing. They come from the configuration, never from a request.
type Settings struct {
	// Method and Path of the call, the path with placeholders as in a template; Encoding of its body.
	Method   string   `json:"method,omitempty"`
	Path     string   `json:"path,omitempty"`
	Encoding Encoding `json:"encoding,omitempty"`
	// KeyHeader is the header of the downstream key, if it is not Idempotency-Key.
	KeyHeader string `json:"key_header,omitempty"`
	// Retention is how long the provider certainly remembers a key, Forever that it always does.
	Retention time.Duration `json:"retention,omitempty"`
	Forever   bool          `json:"forever,omitempty"`
	// Processing is the provider's longest processing.
	Processing time.Duration `json:"processing,omitempty"`
	// Reference is where an answer holds the id of what was created.
	Reference Path `json:"reference,omitempty"`
	// Stamp is where a resource is marked; its path is the field if empty.
	Stamp *StampSetting `json:"stamp,omitempty"`
	// LookUp is how to ask what an operation did. It needs a stamp.
	LookUp *LookUpSetting `json:"look_up,omitempty"`
	// Rejected lists statuses that are definitive refusals, Throttled those that say that nothing was executed.
	Rejected  []int `json:"rejected,omitempty"`
	Throttled []int `json:"throttled,omitempty"`
}

// StampSetting says where the stamp goes (Place: body if empty) and where an answer shows it.
type StampSetting struct {
	Place  Place `json:"in,omitempty"`
	Field  Path  `json:"field"`
	Path   Path  `json:"path,omitempty"`
	Echoed bool  `json:"echoed,omitempty"`
}

// LookUpSetting says how to list what there is. Items, Stamp and Reference are as in LookUp; Stamp and Reference default to the
// operation's. Lag is nil where it is not known; then absence is never concluded.
type LookUpSetting struct {
	Path      string            `json:"path"`
	Query     map[string]string `json:"query,omitempty"`
	Items     Path              `json:"items,omitempty"`
	Stamp     Path              `json:"stamp,omitempty"`
	Reference Path              `json:"reference,omitempty"`
	Paging    Paging            `json:"paging"`
	Lag       *time.Duration    `json:"lag,omitempty"`
}

// settingNames are the names that a contract's given may list: those of Settings' fields.
var settingNames = func() []string {
	t := reflect.TypeFor[Settings]()
	names := make([]string, t.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return names
}()

// SettingNames lists the settings there are, for messages and documentation.
func SettingNames() []string { return slices.Clone(settingNames) }

// Resolve returns an operation with the operator's settings filled in. The name may be empty if the contract has only one. The error is
// an [effectonce.ErrInvalid] that names the field: a setting that the contract does not leave to the operator, one that is
// missing, or a value that would be dangerous.
func (c *Contract) Resolve(name string, s Settings) (*Operation, error) {
	var callable []string
	for one, o := range c.Operations {
		if o.onlyOnTheWire() == "" {
			callable = append(callable, one)
		}
	}
	slices.Sort(callable)
	if name == "" && len(callable) == 1 {
		name = callable[0]
	}
	found, ok := c.Operations[name]
	if !ok {
		remedy := "use " + strings.Join(callable, ", ")
		if len(callable) == 0 {
			remedy = "call it with the provider's own client through the egress proxy"
		}
		return nil, invalid("operation", fmt.Sprintf("contract %s has no operation %q", c.Name, name), remedy)
	}
	if err := found.allowed(s); err != nil {
		return nil, err
	}
	o, err := found.with(s)
	if err != nil {
		return nil, err
	}
	if o.Path == "" {
		return nil, invalid("path", "is missing", "contract "+c.Name+" does not know it: give the path of the call")
	}
	if why := o.onlyOnTheWire(); why != "" {
		return nil, invalid("operation", fmt.Sprintf("%s of %s cannot be called from a template: %s", o.Name, c.Name, why), "send it with the provider's own client through the egress proxy")
	}
	if o.Stamp.Append != "" {
		// A template has no place for a mark within a text: called so, the operation has none.
		o.Stamp, o.LookUp, o.LookUps = Stamp{}, nil, nil
	}
	return o, nil
}

// With returns the contract with the operator's settings in each of its operations that leaves facts to the operator, for requests that come from a
// provider's own client (see Match). The error is an [effectonce.ErrInvalid] that names the field.
func (c *Contract) With(s Settings) (*Contract, error) {
	if reflect.ValueOf(s).IsZero() {
		return c, nil
	}
	filled := *c
	filled.Operations = map[string]*Operation{}
	filled.Version = s.version(c.Version)
	given := false
	var refused error
	for _, name := range slices.Sorted(maps.Keys(c.Operations)) {
		o := c.Operations[name]
		if err := o.allowed(s); err != nil {
			refused = err
			copied := *o
			copied.Version = filled.Version
			filled.Operations[name] = &copied
			continue
		}
		with, err := o.with(s)
		if err != nil {
			return nil, err
		}
		given, filled.Operations[name] = true, with
		if s.Path != "" && filled.Otherwise.Writes == name {
			// The operator says which write it is, so it is no other.
			filled.Otherwise.Writes = ""
		}
	}
	if !given {
		return nil, refused
	}
	return &filled, nil
}

// with returns a copy of the operation with the settings, which are allowed.
func (o *Operation) with(s Settings) (*Operation, error) {
	filled := *o
	filled.fill(s)
	p := &problems{file: "settings"}
	filled.check(p, "")
	if len(p.list) > 0 {
		first := p.list[0]
		return nil, invalid(strings.TrimPrefix(first.Field, "."), first.Detail, first.Remedy)
	}
	if !reflect.ValueOf(s).IsZero() {
		filled.Version = s.version(o.Version)
	}
	return &filled, nil
}

// onlyOnTheWire says why an operation's request cannot be made from a template, "" if it can.
func (o *Operation) onlyOnTheWire() string {
	simple := func(p Place) bool { return p == "" || p == PlaceHeader || p == PlaceBody || p == PlaceQuery }
	l := o.LookUp
	switch {
	case o.Effect == EffectRead:
		return "it has no effect"
	case o.Signed.Kind != "":
		return "its body is signed"
	case len(o.Where) > 0:
		return "it is told apart by more than method and path"
	case len(o.Key.Also) > 0 || len(o.Key.Companions) > 0 || !simple(o.Key.Place):
		return "its key has a place of another kind"
	case !simple(o.Stamp.Place) || o.Stamp.LengthMax > 0 && o.Stamp.LengthMax < StampLength:
		return "its stamp has a place of another kind, or is cut"
	case strings.Contains(o.Path, "...}"):
		return "its path has no fixed length"
	case l != nil && (l.By != ByStamp || l.Method != http.MethodGet || l.Answer != FormatJSON || l.Single || len(l.Header) > 0):
		return "its look-up is of another kind"
	}
	return ""
}

func (o *Operation) allowed(s Settings) error {
	v := reflect.ValueOf(s)
	for i, name := range settingNames {
		if v.Field(i).IsZero() || slices.Contains(o.Given, name) {
			continue
		}
		return invalid(name, fmt.Sprintf("contract %s states this itself", o.Contract), "leave it out, or write a contract of your own")
	}
	return nil
}

func (o *Operation) fill(s Settings) {
	operator := Source{URL: "configuration", Checked: "at start", Grade: GradeOperator}
	if s.Method != "" {
		o.Method = strings.ToUpper(s.Method)
	}
	if s.Path != "" {
		o.Path = s.Path
	}
	if s.Encoding != "" {
		o.Encoding = s.Encoding
	}
	if s.KeyHeader != "" {
		o.Key.Name = s.KeyHeader
	}
	if s.Retention > 0 || s.Forever {
		o.Retention = Retention{AtLeast: s.Retention, Forever: s.Forever, Source: operator}
	}
	if s.Processing > 0 {
		o.Processing = Span{AtMost: s.Processing, Stated: true, Source: operator}
	}
	if s.Reference != "" {
		o.Reference = s.Reference
	}
	if s.Stamp != nil {
		o.Stamp = Stamp{Place: s.Stamp.Place, Field: s.Stamp.Field, Path: s.Stamp.Path, Echoed: s.Stamp.Echoed, Source: operator}
		if o.Stamp.Place == "" {
			o.Stamp.Place = PlaceBody
		}
		if o.Stamp.Path == "" {
			o.Stamp.Path = o.Stamp.Field
		}
	}
	if l := s.LookUp; l != nil {
		o.LookUp = &LookUp{
			Method: http.MethodGet, Answer: FormatJSON, By: ByStamp, Path: l.Path, Query: l.Query, Items: l.Items, Stamp: l.Stamp, Reference: l.Reference,
			Paging: l.Paging, Source: operator,
		}
		o.LookUps = []*LookUp{o.LookUp}
		if o.LookUp.Stamp == "" {
			o.LookUp.Stamp = o.Stamp.Path
		}
		if o.LookUp.Reference == "" {
			o.LookUp.Reference = o.Reference
		}
		if l.Lag != nil {
			o.LookUp.Lag = Span{AtMost: *l.Lag, Stated: true, Source: operator}
		}
	}
	o.vouch(s.Rejected, effectonce.VerdictRejected, operator)
	o.vouch(s.Throttled, effectonce.VerdictThrottled, operator)
}

// vouch puts a rule for the operator's statuses in front of the contract's.
func (o *Operation) vouch(statuses []int, verdict effectonce.Verdict, by Source) {
	if len(statuses) == 0 {
		return
	}
	rule := Rule{When: Match{Attempt: OnAny}, Verdict: verdict, Reason: "the operator says so of this status", Source: by}
	for _, n := range statuses {
		rule.When.Status = append(rule.When.Status, StatusRange{n, n})
	}
	o.Verdicts = append([]Rule{rule}, o.Verdicts...)
}

func (s Settings) version(contract string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return contract
	}
	document, err := canon.Decode(text, canon.DefaultLimits)
	if err != nil {
		return contract
	}
	digest, err := canon.Sum([]any{contract, document})
	if err != nil {
		return contract
	}
	return digest.String()
}

func invalid(field, detail, remedy string) error {
	return &effectonce.Error{Code: effectonce.CodeInvalid, Field: field, Detail: detail, Remedy: remedy}
}

// String returns the range as the file writes it.
func (s StatusRange) String() string {
	if s.From == s.To {
		return strconv.Itoa(s.From)
	}
	return fmt.Sprintf("%d-%d", s.From, s.To)
}
