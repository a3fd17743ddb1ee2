package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/effectonce/effectonce"
)

// S16.14, S16.21: what the server's errors mean, above all whether the statement can have taken place.
func TestErrorsOfTheServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code, severity string
		want           effectonce.Code
		words          string
		harmless       bool
	}{
		{"40001", "ERROR", effectonce.CodeStoreUnavailable, "try again", true},
		{"40P01", "ERROR", effectonce.CodeStoreUnavailable, "try again", true},
		{"53100", "ERROR", effectonce.CodeStoreUnavailable, "disk is full", true},
		{"53200", "ERROR", effectonce.CodeStoreUnavailable, "out of memory", true},
		{"53300", "FATAL", effectonce.CodeStoreUnavailable, "too many connections", false},
		{"57014", "ERROR", effectonce.CodeStoreUnavailable, "cancelled", true},
		{"57P01", "FATAL", effectonce.CodeStoreUnavailable, "server stopped", false},
		{"57P02", "FATAL", effectonce.CodeStoreUnavailable, "server stopped", false},
		{"57P03", "FATAL", effectonce.CodeStoreUnavailable, "starting up", false},
		{"08P01", "ERROR", effectonce.CodeStoreUnavailable, "connection was lost", false},
		{"08006", "", effectonce.CodeStoreUnavailable, "connection was lost", false},
		{"25006", "ERROR", effectonce.CodeStoreUnavailable, "standby", true},
		{"58030", "ERROR", effectonce.CodeStoreUnavailable, "try again", true},
		{"28P01", "FATAL", effectonce.CodeStoreBroken, "password", false},
		{"42P01", "ERROR", effectonce.CodeStoreBroken, "effectonce migrate", true},
		{"42501", "ERROR", effectonce.CodeStoreBroken, "permission", true},
		{"XX001", "ERROR", effectonce.CodeStoreBroken, "corrupt", true},
		{"54000", "ERROR", effectonce.CodeTooLarge, "larger", true},
		{"22021", "ERROR", effectonce.CodeStoreBroken, "refused a statement", true},
	} {
		raw := &pgconn.PgError{Code: c.code, Severity: c.severity, SeverityUnlocalized: c.severity, Message: "as the server says it, with s3cret"}
		err := place{name: "postgres://db:5432/x", password: "s3cret"}.mapError(raw)
		var e *effectonce.Error
		if !errors.As(err, &e) || e.Code != c.want || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", c.code, err)
		}
		if harmless(raw) != c.harmless {
			t.Errorf("%s: that nothing took place is said to be %v", c.code, !c.harmless)
		}
	}
}
