package postgres

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/effectonce/effectonce"
)

// place is a database in words that hold no secret.
type place struct {
	name     string
	password string
}

func placeOf(c *pgx.ConnConfig) place {
	name := "postgres://" + net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + "/" + c.Database
	if strings.HasPrefix(c.Host, "/") {
		name = "postgres:///" + c.Database + "?host=" + c.Host
	}
	return place{name: name, password: c.Password}
}

// mapError turns every error of the driver into one of the project's (S16.14, S16.21). An [effectonce.Error] stays as it is.
func (p place) mapError(err error) error {
	var ours *effectonce.Error
	if err == nil || errors.As(err, &ours) {
		return err
	}
	cause := p.clean(err)
	unavailable := func(detail, remedy string) error {
		return &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: p.name + ": " + detail, Remedy: remedy, RetryAfter: time.Second, Cause: cause}
	}
	broken := func(detail, remedy string) error {
		return &effectonce.Error{Code: effectonce.CodeStoreBroken, Detail: p.name + ": " + detail, Remedy: remedy, Cause: cause}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: "the caller gave up, or the database did not answer in time", Cause: cause}
	}
	state := code(err)
	if state == "" {
		var dialing *pgconn.ConnectError
		if errors.As(err, &dialing) {
			return unavailable("no connection", "see that the server runs and the address is right")
		}
		return unavailable("the connection was lost", "try again")
	}
	switch state {
	case "40001", "40P01", "55P03":
		return unavailable("others are at the same rows", "try again")
	case "53300":
		return unavailable("too many connections", "lower pool_max_conns, raise max_connections, or put PgBouncer in between")
	case "53100":
		return unavailable("the disk is full", "free disk space; nothing recorded is lost")
	case "53200":
		return unavailable("out of memory", "give the server more memory")
	case "57P03":
		return unavailable("the server is starting up or shutting down", "try again")
	case "57014":
		return unavailable("the statement was cancelled", "see the server's statement_timeout")
	case "25006":
		return unavailable("the server is read-only, a standby", "connect to the primary: name all hosts in the URL, with target_session_attrs=read-write")
	case "28P01", "28000":
		return broken("the server refuses the user or the password", "correct the URL")
	case "3D000":
		return broken("there is no such database", "create it")
	case "42501":
		return broken("the user lacks a permission", "grant it, or let the schema's owner run effectonce migrate")
	case "42P01", "3F000", "42703":
		return broken("the schema is missing or not up to date", "run effectonce migrate")
	case "54000":
		return &effectonce.Error{Code: effectonce.CodeTooLarge, Detail: "a value is larger than the database can hold", Cause: cause}
	case "XX001", "XX002":
		return broken("the database is corrupt", "stop the server, keep a copy, and restore a backup")
	}
	switch state[:min(2, len(state))] {
	case "08", "57", "58", "53":
		return unavailable("the server stopped, or the connection was lost", "try again")
	case "40", "25":
		return unavailable("the transaction was rolled back", "try again")
	}
	return broken("the database refused a statement", "see that no other program changed the schema; the cause says more")
}

// clean keeps the password out of what is told.
func (p place) clean(err error) error {
	if p.password == "" || !strings.Contains(err.Error(), p.password) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), p.password, "***"))
}

// answered reports whether the server said that the statement did not take place. An error of the connection is none of these
// even where something in between, a proxy, reports it like one: it cannot know.
func answered(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.SeverityUnlocalized != "ERROR" {
		return false
	}
	return !strings.HasPrefix(e.Code, "08") && !strings.HasPrefix(e.Code, "57P")
}

// lost reports whether an error is of the connection, or of the server's end, and not of a statement.
func lost(err error) bool {
	return err != nil && !answered(err) && !unsentError(err) && !ours(err) && !errors.Is(err, errClockMoved)
}

// harmless reports whether an error proves that nothing took place. Any other one leaves that open: the connection was lost, or
// the server was ending it, which can be after the commit.
func harmless(err error) bool {
	return answered(err) || unsentError(err) || pgconn.SafeToRetry(err)
}

// unsent is an error from before anything was sent.
type unsent struct{ error }

// Unwrap returns the error.
func (u unsent) Unwrap() error { return u.error }

func unsentError(err error) bool {
	var u unsent
	return errors.As(err, &u)
}

func ours(err error) bool {
	var e *effectonce.Error
	return errors.As(err, &e)
}

// contended reports whether the same statement may succeed if it is tried again at once.
func contended(err error) bool {
	switch code(err) {
	case "40001", "40P01", "55P03":
		return true
	}
	return errors.Is(err, errClockMoved)
}

// ofTheRows reports whether an error may be due to one row of a statement, so that the others deserve a statement of their own.
func ofTheRows(err error) bool {
	class := code(err)
	class = class[:min(2, len(class))]
	return class == "22" || class == "23" || class == "40" || class == "54" || class == "55"
}

// code is the server's code for an error, by whatever driver; empty for one of the connection.
func code(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

func notFound(key effectonce.Key) error {
	return &effectonce.Error{Code: effectonce.CodeNotFound, Key: key, Detail: "no operation has this key"}
}
