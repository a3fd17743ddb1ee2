package contract

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/effectonce/effectonce"
)

// keyLengthMin is the shortest downstream key of which no collision is thinkable (S3.9).
const keyLengthMin = 22

var (
	namePattern   = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)?$`)
	headerPattern = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

// check refuses what is incomplete, and what would be dangerous to believe (S14.5).
func (c *Contract) check(p *problems) {
	if !namePattern.MatchString(c.Name) {
		p.add("contract", fmt.Sprintf("%q is not a name", c.Name), "write provider/version in lower case, such as stripe/v1")
	}
	if len(c.Operations) == 0 {
		p.add("operations", "is empty", "describe at least one operation")
	}
	if c.VersionHeader != "" && !headerPattern.MatchString(c.VersionHeader) {
		p.add("api_version", fmt.Sprintf("%q is not a header name", c.VersionHeader), "name the header that carries the API version")
	}
	for i, m := range c.Otherwise.Reads {
		if m != strings.ToUpper(m) || m == "POST" || m == "PUT" || m == "PATCH" || m == "DELETE" {
			p.add(fmt.Sprintf("otherwise.reads[%d]", i), fmt.Sprintf("calls every %s a read", m), "leave it out, and describe the ones that have no effect as operations with effect: read")
		}
	}
	if w := c.Otherwise.Writes; w != "" && (c.Operations[w] == nil || c.Operations[w].Effect == EffectRead) {
		p.add("otherwise.writes", fmt.Sprintf("there is no operation %q with an effect", w), "name one, or leave it out; then what nobody described does not pass")
	}
	for name, o := range c.Operations {
		at := "operations." + name
		if !namePattern.MatchString(name) {
			p.add(at, "is not a name", "use lower case, digits, dots and underscores")
		}
		if name == "read" || name == "unknown" {
			p.add(at, "has a name that means something else", "use another one")
		}
		o.check(p, at)
		c.checkCredential(p, at, o)
		if u := o.Compensation; u != nil {
			if c.Operations[u.Operation] == nil || u.Operation == name {
				p.add(at+".compensation.operation", fmt.Sprintf("there is no other operation %q", u.Operation), "name the operation that undoes this one")
			}
			if u.By != "id" && u.By != "key" {
				p.add(at+".compensation.by", fmt.Sprintf("%q says not what it needs", u.By), "use id or key")
			}
		}
	}
}

func (o *Operation) check(p *problems, at string) {
	o.checkHeaders(p, at)
	for _, g := range o.Given {
		if !slices.Contains(settingNames, g) {
			p.add(at+".given", fmt.Sprintf("%q is not a setting", g), "use "+strings.Join(settingNames, ", "))
		}
	}
	if !strings.HasPrefix(o.Path, "/") && !(o.Path == "" && slices.Contains(o.Given, "path")) {
		p.add(at+".path", "does not begin with a slash", "write the path under the base URL")
	}
	o.checkShape(p, at)
	o.checkSweep(p, at)
	if o.Effect == EffectRead {
		o.checkRead(p, at)
		return
	}
	if o.Encoding != EncodingForm && o.Encoding != EncodingJSON {
		p.add(at+".encoding", fmt.Sprintf("%q is not an encoding", o.Encoding), "use form or json")
	}
	o.checkKey(p, at)
	o.checkRetention(p, at)
	o.checkStamp(p, at)
	for i, l := range o.LookUps {
		where := at + ".look_up"
		if _, ok := p.lines[where]; !ok && p.lines != nil {
			where = fmt.Sprintf("%s.look_ups[%d]", at, i)
		}
		o.checkLookUp(p, where, l)
	}
	if len(o.Verdicts) == 0 {
		p.add(at+".verdicts", "is missing", "say at least which answer is a success; everything else is unknown")
	}
	for i, rule := range o.Verdicts {
		o.checkRule(p, fmt.Sprintf("%s.verdicts[%d]", at, i), rule)
	}
}

// conditionPlaces are where a request shows what it is.
var conditionPlaces = []Place{PlaceHeader, PlaceQuery, PlaceBody, PlaceForm, PlaceContentType, PlaceGraphQL, PlaceHost}

func (o *Operation) checkShape(p *problems, at string) {
	switch o.Effect {
	case EffectRead:
		if !slices.Contains([]string{"GET", "HEAD", "OPTIONS", "POST", "QUERY"}, o.Method) {
			p.add(at+".effect", fmt.Sprintf("calls a %s a read", o.Method), "use GET, or POST with a source that says that it has no effect")
		} else if o.Method == "POST" && !o.EffectSource.Good() {
			p.add(at+".effect_source", "is missing: a POST passes unguarded if it is called a read", "name the source that says that it has no effect")
		}
	case EffectConvergent:
		if !o.EffectSource.Good() {
			p.add(at+".effect_source", "is missing: what is called convergent is applied again without asking", "name the source that says that repeats are harmless")
		}
	case EffectKeyed:
		if o.Key.Place == "" {
			p.add(at+".effect", "is keyed, and there is no key", "describe the key, or say none")
		}
	case EffectNone:
		if o.Key.Place != "" {
			p.add(at+".effect", "is none, and there is a key", "say keyed, or leave the key out")
		}
	default:
		p.add(at+".effect", fmt.Sprintf("%q is not an effect", o.Effect), "use keyed, convergent, none or read")
	}
	if o.Effect != EffectRead {
		switch o.Method {
		case "POST", "PUT", "PATCH", "DELETE":
		case "GET":
			if len(o.Where) == 0 {
				p.add(at+".method", `"GET" has no effect that could be guarded`, "use POST, PUT, PATCH or DELETE")
			}
		default:
			p.add(at+".method", fmt.Sprintf("%q has no effect that could be guarded", o.Method), "use POST, PUT, PATCH or DELETE")
		}
	}
	if !slices.Contains([]Format{FormatJSON, FormatXML, FormatForm, FormatText}, o.Answer) {
		p.add(at+".answer", fmt.Sprintf("%q is not a format", o.Answer), "use json, xml, form or text")
	}
	checkTemplate(p, at+".path", o.Path)
	for i, c := range o.Where {
		where := fmt.Sprintf("%s.where[%d]", at, i)
		switch {
		case !slices.Contains(conditionPlaces, c.In):
			p.add(where+".in", fmt.Sprintf("%q is no place to look at", c.In), "use "+listed(conditionPlaces))
		case c.Name == "" && c.In != PlaceContentType && c.In != PlaceHost && c.In != PlaceGraphQL:
			p.add(where+".name", "is missing", "name the header, parameter or field")
		case o.Effect == EffectRead && c.Absent:
			p.add(where+".absent", "makes a read of what is not there", "name a value that only reads have")
		}
	}
}

// checkTemplate refuses a path that Contract.Match cannot read as it is meant.
func checkTemplate(p *problems, at, path string) {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	seen := map[string]bool{}
	for i, s := range segments {
		opening, closing := strings.Count(s, "{"), strings.Count(s, "}")
		if opening == 0 && closing == 0 {
			continue
		}
		_, inner, _ := strings.Cut(s, "{")
		name, _, _ := strings.Cut(inner, "}")
		bare, rest := strings.CutSuffix(name, "...")
		switch {
		case opening != 1 || closing != 1 || bare == "":
			p.add(at, fmt.Sprintf("%q has more than one placeholder or half of one", s), "write one {name} in a segment")
		case rest && (i < len(segments)-1 || !strings.HasPrefix(s, "{") || !strings.HasSuffix(s, "}")):
			p.add(at, fmt.Sprintf("%q is not the last segment", s), "write {name...} at the end")
		case seen[bare]:
			p.add(at, fmt.Sprintf("{%s} is there twice", bare), "use another name")
		}
		seen[bare] = true
	}
}

// checkRead refuses what only an operation with an effect has.
func (o *Operation) checkRead(p *problems, at string) {
	if o.Key.Place != "" || o.Stamp.Set() || len(o.LookUps) > 0 || len(o.Verdicts) > 0 || o.Compensation != nil {
		p.add(at, "has no effect, and a key, stamp, look-up, verdict or compensation", "leave these out")
	}
}

func (o *Operation) checkKey(p *problems, at string) {
	k := o.Key
	if k.Place == "" {
		if o.Retention.AtLeast > 0 || o.Retention.Forever {
			p.add(at+".retention", "is stated, and there is no key that could be remembered", "describe the key, or leave retention out")
		}
		return
	}
	for i, spot := range k.spots() {
		where := at + ".key"
		if i > 0 {
			where = fmt.Sprintf("%s.key.also[%d]", at, i-1)
		}
		o.checkSpot(p, where, spot)
	}
	for i, c := range k.Companions {
		o.checkSpot(p, fmt.Sprintf("%s.key.companions[%d]", at, i), c.Spot)
	}
	if !slices.Contains([]string{"", "uuid", "hex", "base64url", "base32"}, k.Form.Encoding) {
		p.add(at+".key.encoding", fmt.Sprintf("%q is not an encoding", k.Form.Encoding), "use uuid, hex, base64url or base32, with a length as hex(32)")
	}
	if _, err := regexp.Compile(k.Minted); err != nil {
		p.add(at+".key.minted", "is not a pattern", "write a regular expression")
	}
	if strings.ContainsFunc(k.Form.Prefix, func(r rune) bool { return r <= ' ' || r > '~' }) {
		p.add(at+".key.prefix", "holds more than printable ASCII", "leave it out")
	}
	room := k.Form.LengthMax - len(k.Form.Prefix)
	uuid := k.Form.Encoding == "" || k.Form.Encoding == "uuid"
	switch {
	case k.Form.LengthMax == 0:
	case room < keyLengthMin:
		p.add(at+".key.length_max", fmt.Sprintf("leaves %d characters, of which two operations could get the same", room), fmt.Sprintf("at least %d are needed besides the prefix", keyLengthMin))
	case uuid && room < 36:
		p.add(at+".key.length_max", "is too short for a UUID", "use base64url or hex")
	}
	o.checkSample(p, at)
}

// checkSpot refuses a place that nothing can be put into.
func (o *Operation) checkSpot(p *problems, at string, s Spot) {
	switch s.Place {
	case PlaceHeader, PlacePrecondition:
		if !headerPattern.MatchString(s.Name) {
			p.add(at+".name", fmt.Sprintf("%q is not a name", s.Name), "name the header")
		}
		return
	case PlacePath:
		if !strings.Contains(o.Path, "{"+s.Name+"}") {
			p.add(at+".name", fmt.Sprintf("the path has no {%s}", s.Name), "name a placeholder of the path")
		}
		return
	case PlaceForm:
		if o.Encoding != EncodingForm {
			p.add(at+".in", "says form, and the encoding is another", "use body")
		}
	case PlaceGraphQLVariable, PlaceGraphQLDirective, PlaceMailHeader:
		if o.Encoding != EncodingJSON {
			p.add(at+".in", fmt.Sprintf("says %s, and the body is no JSON", s.Place), "use encoding: json")
		}
		if s.Place == PlaceMailHeader && len(s.At.Segments()) == 0 {
			p.add(at+".at", "is missing", "say where the body holds the mail's headers")
		}
	case PlaceBody, PlaceQuery:
	default:
		p.add(at+".in", fmt.Sprintf("%q is not a place", s.Place), "use header, body, query, form, path, graphql_variable, graphql_directive, mail_header or precondition")
	}
	if s.Name == "" || len(Path(s.Name).Segments()) == 0 {
		p.add(at+".name", fmt.Sprintf("%q is not a name", s.Name), "name the header, field or parameter that carries the key")
	}
}

// checkSample makes a few keys and compares them with what the provider accepts.
func (o *Operation) checkSample(p *problems, at string) {
	k := o.Key
	var accepted *regexp.Regexp
	if k.Charset != "" {
		var err error
		if accepted, err = regexp.Compile("^[" + k.Charset + "]*$"); err != nil {
			p.add(at+".key.charset", "is not a class of characters", "write what stands between the brackets of a regular expression, such as A-Za-z0-9_-")
			return
		}
	}
	for n := range byte(32) {
		key := effectonce.DownstreamKey([]byte("sample"), effectonce.Key{n}, 1, k.Form)
		if len(key) < k.LengthMin {
			p.add(at+".key.length_min", fmt.Sprintf("is %d, and a key in this form has %d characters", k.LengthMin, len(key)), "use another encoding")
			return
		}
		if accepted != nil && !accepted.MatchString(key) {
			p.add(at+".key.charset", fmt.Sprintf("does not accept a key such as %s", key), "use another encoding, or none of the characters that the provider refuses in prefix")
			return
		}
	}
}

func (o *Operation) checkRetention(p *problems, at string) {
	at += ".retention"
	r := o.Retention
	switch r.Kind {
	case "", RetentionAtLeast, RetentionLifetime:
		if r.Forever && r.AtLeast > 0 {
			p.add(at, "is both forever and a time", "say one of them")
		}
		if r.Kind == RetentionAtLeast && r.AtLeast == 0 {
			p.add(at+".at_least", "is missing", "say for how long, or kind: unpublished")
		}
	case RetentionWhileActive, RetentionUnpublished, RetentionBestEffort:
		if r.Forever || r.AtLeast > 0 {
			p.add(at+".kind", fmt.Sprintf("is %s, and a time is stated: it could justify a resend, and must not", r.Kind), "leave the time out")
		}
	default:
		p.add(at+".kind", fmt.Sprintf("%q is not a kind", r.Kind), "use at_least, lifetime, while_active, unpublished or best_effort")
	}
	if !slices.Contains([]string{"", "first_receipt", "first_completion", "resource_end", "client_declared"}, r.Starts) {
		p.add(at+".starts", fmt.Sprintf("%q is no start", r.Starts), "use first_receipt, first_completion, resource_end or client_declared")
	}
	if r.Starts == "client_declared" && !slices.ContainsFunc(o.Key.Companions, func(c Companion) bool { return c.FirstSent != "" }) {
		p.add(at+".starts", "is declared by the client, and no companion declares it", "describe the companion with first_sent")
	}
	if !slices.Contains([]string{"", "new_effect", "refused"}, r.After) {
		p.add(at+".after", fmt.Sprintf("%q says not what a forgotten key does", r.After), "use new_effect or refused")
	}
	// A window that ends before one call is over protects nothing.
	call := effectonce.DefaultTerms().Processing
	if o.Processing.Known() {
		call = o.Processing.AtMost
	}
	if r.AtLeast > 0 && r.AtLeast <= call {
		p.add(at+".at_least", fmt.Sprintf("the window of %s is shorter than a call, which may be processed for %s", r.AtLeast, call), "leave retention out; then nothing is resent")
	}
	if !slices.Contains([]string{"", "original", "current_state"}, o.Replays.Success) {
		p.add(strings.TrimSuffix(at, "retention")+"replays.success", fmt.Sprintf("%q is no model", o.Replays.Success), "use original or current_state")
	}
	if !slices.Contains([]string{"", "replayed", "not_stored", "reexecuted", "partial"}, o.Replays.Errors) {
		p.add(strings.TrimSuffix(at, "retention")+"replays.errors", fmt.Sprintf("%q is no model", o.Replays.Errors), "use replayed, not_stored, reexecuted or partial")
	}
	if !slices.Contains([]string{"", "full", "vars", "none"}, o.Fingerprint.Provider) {
		p.add(strings.TrimSuffix(at, "retention")+"fingerprint.provider", fmt.Sprintf("%q is no comparison", o.Fingerprint.Provider), "use full, vars or none")
	}
}

func (o *Operation) checkStamp(p *problems, at string) {
	s := o.Stamp
	if s == (Stamp{}) {
		return
	}
	if len(s.Field.Segments()) == 0 || (s.Place == PlaceHeader && !headerPattern.MatchString(string(s.Field))) {
		p.add(at+".stamp.field", "is missing or no field", "name where the stamp goes, such as metadata.effectonce")
	} else {
		o.checkSpot(p, at+".stamp", s.spot())
	}
	if s.LengthMax != 0 && s.LengthMax < StampLengthMin {
		p.add(at+".stamp.length_max", fmt.Sprintf("leaves %d characters, of which two operations could get the same", s.LengthMax), fmt.Sprintf("at least %d are needed", StampLengthMin))
	}
	o.checkMark(p, at)
	if len(s.Path.Segments()) == 0 {
		p.add(at+".stamp.path", "is missing", "say where the created resource shows the stamp; one that cannot be read back proves nothing")
	}
	if s.Echoed && !s.Source.Good() {
		p.add(at+".stamp.echoed", "has no source", "name one, or leave it out")
	}
	for _, k := range o.Key.spots() {
		if k.Place == s.Place && sameField(k.Name, string(s.Field)) {
			p.add(at+".stamp.field", "is the place of the key", "use two places")
		}
	}
}

func (o *Operation) checkLookUp(p *problems, at string, l *LookUp) {
	switch l.By {
	case ByStamp:
		if !o.Stamp.Set() {
			p.add(at, "looks for a stamp that the operation does not set", "describe the stamp; equal amounts are not identity")
		}
		if len(l.Stamp.Segments()) == 0 {
			p.add(at+".stamp", "is missing", "say where an item shows the stamp")
		}
	case ByKey:
		if o.Key.Place == "" {
			p.add(at+".match", "looks for a key that the operation does not have", "describe the key, or match by stamp")
		}
		if len(l.Key.Segments()) == 0 {
			p.add(at+".key", "is missing", "say where an item shows the key")
		}
	case ByReference:
		if !l.Single || !strings.Contains(l.Path+fmt.Sprint(l.Query, l.Body), "{reference}") {
			p.add(at+".match", "asks for no reference", "ask for one resource by {reference}, with single: true")
		}
	default:
		p.add(at+".match", fmt.Sprintf("%q is no way to recognise an effect", l.By), "use stamp, key or reference; equal amounts are not identity")
	}
	if len(l.Reference.Segments()) == 0 {
		p.add(at+".reference", "is missing", "say where an item shows its id")
	}
	for _, name := range l.placeholders() {
		if !slices.Contains([]string{"stamp", "downstream_key", "reference", "first_sent"}, name) &&
			!slices.ContainsFunc([]string{"body.", "query.", "path.", "header.", "argument."}, func(s string) bool { return strings.HasPrefix(name, s) }) {
			p.add(at, fmt.Sprintf("has a placeholder {%s} that nothing fills", name), "use stamp, downstream_key, reference, first_sent, or a part of the request such as body.order; put a space behind a brace of your own")
		}
	}
	if !strings.HasPrefix(l.Path, "/") {
		p.add(at+".path", "does not begin with a slash", "write the path under the base URL")
	}
	switch {
	case l.Method != "GET" && l.Method != "POST":
		p.add(at+".method", fmt.Sprintf("%q is no way to ask", l.Method), "use GET, or POST for an API that reads by POST")
	case l.Method == "POST" && !l.Source.Good():
		p.add(at+".source", "is missing: a look-up by POST could have an effect", "name the source that says that it has none")
	case l.Method == "POST" && l.Encoding != EncodingForm && l.Encoding != EncodingJSON:
		p.add(at+".encoding", fmt.Sprintf("%q is not an encoding", l.Encoding), "use form or json")
	case l.Method == "GET" && len(l.Body) > 0:
		p.add(at+".body", "is given for a GET", "use query")
	}
	if l.Answer != FormatJSON && l.Answer != FormatXML {
		p.add(at+".answer", fmt.Sprintf("%q is not a format", l.Answer), "use json or xml")
	}
	if !slices.Contains([]string{"", "strong", "eventual", "unknown"}, l.Consistency) {
		p.add(at+".consistency", fmt.Sprintf("%q is not a consistency", l.Consistency), "use strong, eventual or unknown")
	}
	if l.Consistency == "unknown" && l.Lag.Stated {
		p.add(at+".lag", "is stated, and the consistency is unknown", "say eventual if the lag is known")
	}
	for _, status := range l.AbsentStatus {
		if status != 404 && status != 410 || !l.Source.Good() {
			p.add(at+".absent_status", fmt.Sprintf("takes %d for absence", status), "only a sourced 404 or 410 can mean that; any other answer is no answer")
		}
	}
	checkPaging(p, at, l.Paging)
}

func checkPaging(p *problems, at string, paging Paging) {
	switch paging.Kind {
	case PagingNone:
	case PagingStartingAfter:
		if paging.More == "" {
			p.add(at+".paging.more", "is missing", "say where an answer tells that there is another page")
		}
	case PagingCursor:
		if paging.Next == "" {
			p.add(at+".paging.next", "is missing", "say where an answer holds the next cursor")
		}
	case PagingPage:
		if paging.First == nil {
			p.add(at+".paging.first", "is missing", "say which number the first page has; a wrong one would miss a page")
		}
	default:
		p.add(at+".paging.kind", fmt.Sprintf("%q is not a kind of paging", paging.Kind), "use starting_after, page, cursor, or none for a list that is always whole")
	}
	if paging.Kind != PagingNone && paging.Parameter == "" {
		p.add(at+".paging.parameter", "is missing", "name the parameter of the next page")
	}
}
