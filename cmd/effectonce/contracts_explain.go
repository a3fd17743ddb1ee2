package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
)

type contractsExplainCommand struct {
	Name      string            `arg:"" help:"The contract's name, or a file."`
	Operation string            `arg:"" optional:"" help:"The operation that was answered; may be left out if the contract has only one, or for a request."`
	Status    int               `help:"The answer's status. Without it a request is read from standard input."`
	Header    map[string]string `placeholder:"NAME=VALUE" mapsep:"none" help:"A header of the answer; can be repeated."`
	Body      string            `placeholder:"TEXT" help:"The answer's body: the text itself, @file, or - for standard input."`
	Resend    bool              `help:"An earlier attempt may have reached the provider."`
	Request   string            `default:"-" placeholder:"@FILE" help:"A raw HTTP request: its text, @file, or - for standard input."`
}

// Help implements kong.HelpProvider.
func (contractsExplainCommand) Help() string {
	return `A raw request is a line such as POST /v1/refunds, headers, an empty line and the body. It shows which operation the
request is, what is business in it, and the request with a sample key and stamp. Nothing is sent.`
}

// Run explains an answer or a request.
func (e *contractsExplainCommand) Run(c *terminal) error {
	found, err := findContract(c, e.Name)
	if err != nil {
		return err
	}
	if e.Status == 0 {
		return e.request(c, found)
	}
	return e.answer(c, found)
}

func (e *contractsExplainCommand) answer(c *terminal, found *contract.Contract) error {
	o := found.Operations[e.Operation]
	if names := operationNames(found); e.Operation == "" && len(names) == 1 {
		o = found.Operations[names[0]]
	} else if o == nil {
		return invalid("operation", fmt.Sprintf("contract %s has no operation %q", found.Name, e.Operation), "use "+strings.Join(names, ", "))
	}
	body, err := readArgument(c, "body", e.Body)
	if err != nil {
		return err
	}
	answer := contract.Response{Status: e.Status, Header: http.Header{}, Body: body}
	for name, value := range e.Header {
		answer.Header.Set(name, value)
	}
	end := o.Classify(answer, e.Resend)
	shown := map[string]any{
		"contract": found.Name, "operation": o.Name, "status": e.Status, "resend": e.Resend, "verdict": end.Verdict,
		"authoritative": end.Authoritative, "stored_error": end.StoredError, "then": then(o, end, e.Resend),
	}
	add := func(name, value string) {
		if value != "" {
			shown[name] = value
		}
	}
	add("code", end.Failure.Code)
	add("reason", end.Failure.Message)
	add("reference", end.Reference)
	if end.RetryAfter > 0 {
		add("retry_after", end.RetryAfter.String())
	}
	if c.json {
		return c.show(shown)
	}
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	for _, name := range []string{"operation", "verdict", "code", "reason", "reference", "retry_after", "authoritative", "stored_error", "then"} {
		if v, ok := shown[name]; ok && v != false {
			fmt.Fprintf(w, "%s\t%s\n", strings.ReplaceAll(name, "_", " "), printed(fmt.Sprint(v)))
		}
	}
	return w.Flush()
}

// then says in words what an end leads to.
func then(o *contract.Operation, end effectonce.End, resend bool) string {
	switch end.Verdict {
	case effectonce.VerdictSucceeded:
		return "the operation is done"
	case effectonce.VerdictRejected:
		if !resend || end.Authoritative {
			return "the operation failed, certainly without an effect"
		}
		return "this send had no effect; what an earlier one did must be found out"
	case effectonce.VerdictThrottled:
		if !resend {
			return "nothing was executed; it is sent again later"
		}
		return "this send had no effect; what an earlier one did must be found out"
	case effectonce.VerdictInFlight:
		return "the provider is at work on this key: wait and look again"
	}
	switch {
	case o.Effect == contract.EffectConvergent:
		return "it is applied again"
	case end.StoredError && len(o.LookUps) > 0:
		return "the answer would only be replayed: look up, then a person"
	case len(o.LookUps) > 0:
		return "look up; " + resendOf(o)
	case o.Key.Known() && o.Retention.Known():
		return "sent again " + resendOf(o)
	}
	return "a person decides"
}

func (e *contractsExplainCommand) request(c *terminal, found *contract.Contract) error {
	text, err := readArgument(c, "request", e.Request)
	if err != nil {
		return err
	}
	r, err := rawRequest(text)
	if err != nil {
		return invalid("request", err.Error(), "write a line such as POST /v1/refunds, headers, an empty line and the body")
	}
	shown := map[string]any{"contract": found.Name}
	o, ok := found.Match(r)
	switch {
	case !ok:
		shown["operation"], shown["effect"] = "unknown", "a write that nobody described, or one that servers can read in different ways: it does not pass unguarded"
	case o.Effect == contract.EffectRead:
		shown["operation"], shown["effect"] = firstOf(o.Name, "read"), "read: it passes"
	default:
		if err := explainWrite(shown, o, r); err != nil {
			return err
		}
	}
	if c.json {
		return c.show(shown)
	}
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	for _, name := range []string{"operation", "effect", "resend", "scope", "not_in_the_request", "client_key", "business"} {
		if v, ok := shown[name]; ok {
			if raw, isJSON := v.(json.RawMessage); isJSON {
				v = string(raw)
			}
			fmt.Fprintf(w, "%s\t%s\n", strings.ReplaceAll(name, "_", " "), printed(fmt.Sprint(v)))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if sent, ok := shown["sent"].(string); ok {
		c.say("\nsent, with a sample key and stamp:")
		for line := range strings.Lines(sent) {
			c.say("  %s", printed(strings.TrimRight(line, "\r\n")))
		}
	}
	return nil
}

// explainWrite shows what is sent, with a key and a stamp that no installation has.
func explainWrite(shown map[string]any, o *contract.Operation, r contract.Request) error {
	shown["operation"], shown["effect"], shown["resend"] = o.Name, string(o.Effect), resendOf(o)
	business, err := o.Business(r)
	if err != nil {
		return invalid("request", err.Error(), "such a request is refused")
	}
	shown["business"] = business
	if scope, missing := o.ScopeOf(r); true {
		if scope != "" {
			shown["scope"] = scope
		}
		if len(missing) > 0 {
			shown["not_in_the_request"] = "scope parts from the configuration: " + scopeList(missing)
		}
	}
	if key, minted := o.ClientKey(r); key != "" {
		shown["client_key"] = key + " (chosen by the caller; overwritten)"
		if minted {
			shown["client_key"] = key + " (made up by the client; overwritten)"
		}
	}
	secret := []byte("sample")
	sent, err := o.Inject(r, effectonce.DownstreamKey(secret, effectonce.Key{1}, 1, o.Key.Form), effectonce.StampOf(secret, effectonce.Key{1}), time.Unix(0, 0))
	if err != nil {
		return invalid("request", err.Error(), "such a request is refused")
	}
	shown["sent"] = spellRequest(sent)
	return nil
}

func spellRequest(r contract.Request) string {
	var b strings.Builder
	b.WriteString(r.Method + " " + r.Path)
	if r.Query != "" {
		b.WriteString("?" + r.Query)
	}
	b.WriteString("\n")
	for _, name := range sortedKeys(r.Header) {
		value := strings.Join(r.Header[name], ", ")
		if name == "Authorization" || name == "Cookie" || name == "Proxy-Authorization" {
			value = "(not shown)"
		}
		b.WriteString(name + ": " + value + "\n")
	}
	b.WriteString("\n" + string(r.Body))
	return b.String()
}

// rawRequest reads a request as a person writes it: the protocol's version and the length may be left out.
func rawRequest(text []byte) (contract.Request, error) {
	reader := bufio.NewReader(bytes.NewReader(text))
	first, err := reader.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return contract.Request{}, err
	}
	parts := strings.Fields(first)
	if len(parts) < 2 || len(parts) > 3 || !strings.HasPrefix(parts[1], "/") {
		return contract.Request{}, errors.New("does not begin with a method and a path")
	}
	r := contract.Request{Method: strings.ToUpper(parts[0]), Header: http.Header{}}
	r.Path, r.Query, _ = strings.Cut(parts[1], "?")
	header, err := textproto.NewReader(reader).ReadMIMEHeader()
	if err != nil && !errors.Is(err, io.EOF) {
		return contract.Request{}, errors.New("has headers that cannot be read")
	}
	for name, values := range header {
		r.Header[name] = values
	}
	r.Host = r.Header.Get("Host")
	body, err := io.ReadAll(reader)
	if err != nil {
		return contract.Request{}, err
	}
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		body = bytes.TrimRight(body, "\r\n")
	}
	r.Body = body
	return r, nil
}
