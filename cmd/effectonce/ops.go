package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/effectonce/effectonce"
)

// defaultServer is where a daemon without configuration listens.
const defaultServer = "http://127.0.0.1:7171"

type opsCommand struct {
	Server string `env:"EFFECTONCE_SERVER" default:"http://127.0.0.1:7171" placeholder:"URL" help:"The daemon (${env})."`

	Ls      opsLsCommand      `cmd:"" help:"List operations, newest first."`
	Show    opsShowCommand    `cmd:"" help:"Show an operation and its time line."`
	Watch   opsWatchCommand   `cmd:"" help:"Show what happens to an operation until it is settled."`
	Resolve opsResolveCommand `cmd:"" help:"Record a person's decision on an operation in review, or held."`
}

// keyPrefixMin is the fewest digits by which an operation can be named.
const keyPrefixMin = 8

// find turns a key, or the first digits of one, into the key of the one operation that it names.
func (o *opsCommand) find(ctx context.Context, text string) (effectonce.Key, error) {
	prefix := strings.ToLower(strings.TrimSpace(text))
	if len(prefix) == 2*len(effectonce.Key{}) {
		return effectonce.ParseKey(prefix)
	}
	if len(prefix) < keyPrefixMin || strings.Trim(prefix, "0123456789abcdef") != "" {
		return effectonce.Key{}, invalid("key", fmt.Sprintf("%.80q is not a key", text), fmt.Sprintf("a key has 64 hex digits; its first %d or more are enough where they are unique", keyPrefixMin))
	}
	var found []string
	query := listQuery{Text: prefix, Limit: effectonce.ListLimitMax}
	for {
		page, err := o.remote().list(ctx, query)
		if err != nil {
			return effectonce.Key{}, err
		}
		for _, op := range page.Operations {
			if strings.HasPrefix(op.Key, prefix) {
				found = append(found, op.Key)
			}
		}
		if page.Next == "" {
			break
		}
		query.After = page.Next
	}
	switch len(found) {
	case 0:
		return effectonce.Key{}, &effectonce.Error{Code: effectonce.CodeNotFound, Field: "key", Detail: "no operation has a key that begins with " + prefix, Remedy: "effectonce ops ls shows the newest"}
	case 1:
		return effectonce.ParseKey(found[0])
	}
	return effectonce.Key{}, invalid("key", fmt.Sprintf("%s is the beginning of %d keys", prefix, len(found)), "give more digits: "+strings.Join(found[:min(len(found), 3)], ", "))
}
