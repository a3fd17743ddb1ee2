package contract

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// ScopeOf says in which scope the provider remembers a request's key, as far as the request shows it (S3.10): "account=acct_1 region=eu-west-1", sorted by part. Missing
// lists the parts that the contract names and the request does not show; base URL, API version, account and credential among them are the configuration's to
// add. A repeat in another scope is a new effect.
func (o *Operation) ScopeOf(r Request) (scope string, missing []ScopePart) {
	v := newView(r)
	var shown []string
	for _, part := range o.Scope {
		i := slices.IndexFunc(o.ScopeFrom, func(f ScopeFrom) bool { return f.Part == part })
		switch {
		case part == ScopeEndpoint && i < 0:
			shown = append(shown, "endpoint="+url.QueryEscape(o.Method+" "+o.Path))
		case i < 0:
			missing = append(missing, part)
		default:
			value := v.scopePart(o, o.ScopeFrom[i])
			if value == "" {
				missing = append(missing, part)
				continue
			}
			shown = append(shown, string(part)+"="+url.QueryEscape(value))
		}
	}
	slices.Sort(shown)
	return strings.Join(shown, " "), missing
}

func (v *view) scopePart(o *Operation, f ScopeFrom) string {
	var s string
	switch f.In {
	case PlaceHost:
		s = hostPart(v.Host, f.Name)
	case PlaceCredentialScope:
		s = credentialScope(v.Header.Get("Authorization"), f.Name)
	default:
		s = v.at(o, Spot{Place: f.In, Name: f.Name})
	}
	if s == "" {
		return f.Default
	}
	return s
}

// hostPart is the host, or what {part} stands for in a template such as ec2.{region}.amazonaws.com.
func hostPart(host, template string) string {
	host, _, _ = strings.Cut(strings.ToLower(host), ":")
	before, inner, has := strings.Cut(template, "{")
	if !has {
		return host
	}
	_, after, _ := strings.Cut(inner, "}")
	if len(host) <= len(before)+len(after) || !strings.HasPrefix(host, before) || !strings.HasSuffix(host, after) {
		return ""
	}
	return host[len(before) : len(host)-len(after)]
}

// credentialScope reads a part of the credential scope of an AWS signature: Credential=KEY/20261130/eu-west-1/ec2/aws4_request.
func credentialScope(authorization, part string) string {
	_, rest, ok := strings.Cut(authorization, "Credential=")
	if !ok || !strings.HasPrefix(authorization, "AWS4-") {
		return ""
	}
	credential, _, _ := strings.Cut(rest, ",")
	parts := strings.Split(strings.TrimSpace(credential), "/")
	if len(parts) != 5 {
		return ""
	}
	switch part {
	case "access_key":
		return parts[0]
	case "region":
		return parts[2]
	case "service":
		return parts[3]
	}
	return ""
}

// String writes the place as a person would say it.
func (s Spot) String() string {
	switch s.Place {
	case PlaceGraphQLDirective:
		return fmt.Sprintf("graphql_directive @%s(%s)", s.Name, s.argument())
	case PlaceMailHeader:
		return fmt.Sprintf("mail_header %s in %s", s.Name, s.At)
	}
	return string(s.Place) + " " + s.Name
}
