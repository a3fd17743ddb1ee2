package postgres

import (
	"fmt"
	"slices"
	"strings"
)

// The statements of the hot path. Each takes the clock's two parameters and then one array per column, a row per operation.
//
// PostgreSQL would join a few rows with a table that it has not analysed yet by reading the whole table, and keep to that plan
// while the table grows. It is told to expect one row (the WHERE that is always true), so that it looks each key up in the index,
// in the order of the array, which is that of the keys: all batches lock rows in one order.

// insertColumns are the arrays of createStatement, updateColumns those of the apply statements.
var (
	insertColumns = slices.Concat(identityColumns, lifeColumns, momentColumns, columns(typeInt, "moved"), prefixed(eventColumns))
	updateColumns = slices.Concat(columns(typeBytes, "key"), columns(typeInt, "from_version from_due"), columns(typeBool, "takes"),
		columns(typeInt, "alarm_change"), lifeColumns, momentColumns, columns(typeInt, "moved"), prefixed(eventColumns))
)

// prefixed are columns of an event beside those of an operation.
func prefixed(cols []column) []column {
	all := make([]column, len(cols))
	for i, c := range cols {
		all[i] = column{"e_" + c.name, c.sqlType}
	}
	return all
}

// rowsOf is the rows of the parameters from $3 on: first an array per column, and then per column the value of all rows, for an
// array that is empty. The first column is the key, which is always an array.
func rowsOf(cols []column) string {
	params := make([]string, len(cols))
	values := make([]string, len(cols))
	for i, c := range cols {
		params[i] = fmt.Sprintf("$%d::%s[]", i+3, c.sqlType.name)
		values[i] = fmt.Sprintf("coalesce(r.%s, $%d::%s) AS %s", c.name, i+3+len(cols), c.sqlType.name, c.name)
	}
	return "SELECT r.ord, " + strings.Join(values, ", ") + " FROM unnest(" + strings.Join(params, ", ") + ") WITH ORDINALITY AS r (" + names(cols, "") + ", ord) WHERE r.ord % 1 = 0"
}

// stamped are the values of the first n moments: distances become times.
func stamped(n int) []string {
	var all []string
	for i, c := range momentColumns[:n] {
		all = append(all, fmt.Sprintf("i.%s + ((i.moved >> %d) & 1) * c.now", c.name, i))
	}
	return all
}

// settable are the moments that a transition after the first can move: all but created_at.
const settable = timesCount - 1

// createStatement stores new operations with their events, and returns each row that it stored, and the operation for each that was
// there. A row for which it returns neither met another one's insertion, or a hold on its resource (S7.1). A row without a number
// stands for the clock.
//
// Because of the one row that is expected, joins of the arrays with each other would compare all with all; NOT IN looks into a hash
// table instead. So ids are drawn before the insertion, whose rows are known again by them.
var createStatement = newStatement(`WITH c AS MATERIALIZED (` + clockSQL + `),
e AS MATERIALIZED (
	SELECT k.ord, ` + selectColumns + `
	FROM (SELECT * FROM unnest($3::bytea[]) WITH ORDINALITY AS r (key, ord) WHERE ord % 1 = 0) k JOIN effectonce.operations o ON o.key = k.key
),
m AS MATERIALIZED (
	SELECT nextval('effectonce.operation_ids') AS id, i.*
	FROM (` + rowsOf(insertColumns) + `) i
	WHERE i.ord NOT IN (SELECT e.ord FROM e)
	AND (i.hold IS NOT NULL OR i.resource IS NULL OR NOT EXISTS (SELECT FROM effectonce.holds h WHERE h.resource = i.resource AND h.tenant = i.tenant))
),
n AS (
	INSERT INTO effectonce.operations (id, changed_at, ` + names(identityColumns, "") + `, ` + names(lifeColumns, "") + `, ` + names(momentColumns, "") + `)
	SELECT i.id, c.now, ` + names(identityColumns, "i.") + `, ` + names(lifeColumns, "i.") + `, ` + strings.Join(stamped(timesCount), ", ") + `
	FROM m i CROSS JOIN c
	WHERE c.behind <= ` + toleranceMicros + `
	ON CONFLICT (key) DO NOTHING
	RETURNING id
),
v AS (
	INSERT INTO effectonce.events (operation, at, ` + names(eventColumns, "") + `)
	SELECT m.id, c.now, ` + names(prefixed(eventColumns), "m.") + ` FROM m CROSS JOIN c WHERE (m.id NOT IN (SELECT n.id FROM n)) IS FALSE
)
SELECT c.now, c.behind, c.high, NULL::bigint, false, ` + nulls(operationColumns) + ` FROM c
UNION ALL SELECT 0, 0, 0, m.ord, true, ` + nulls(operationColumns) + ` FROM m WHERE (m.id NOT IN (SELECT n.id FROM n)) IS FALSE
UNION ALL SELECT 0, 0, 0, e.ord, false, ` + names(operationColumns, "e.") + ` FROM e`)

func nulls(cols []column) string {
	all := make([]string, len(cols))
	for i, c := range cols {
		all[i] = "NULL::" + c.sqlType.name
	}
	return strings.Join(all, ", ")
}

// The fence is the version (S5.1 I4). An owner may have extended its lease after somebody saw it run out, which is no new version:
// whoever takes over has to have seen the present end of the lease.
const fence = `o.key = i.key AND o.version = i.from_version AND (NOT i.takes OR o.due_at IS NOT DISTINCT FROM i.from_due)`

// applyStatement stores transitions with their events, and returns the rows that fitted. applyAlarmStatement also starts and ends
// holds of resources (S7.1), which is rare.
var (
	applyStatement      = newStatement(applySQL(""))
	applyAlarmStatement = newStatement(applySQL(`,
h AS (INSERT INTO effectonce.holds (operation, tenant, resource) SELECT u.id, u.tenant, u.resource FROM u WHERE u.alarm_change > 0),
g AS (DELETE FROM effectonce.holds WHERE operation IN (SELECT u.id FROM u WHERE u.alarm_change < 0))`))
)

func applySQL(more string) string {
	var set []string
	for _, c := range lifeColumns {
		set = append(set, c.name+" = i."+c.name)
	}
	for i, v := range stamped(settable) {
		set = append(set, momentColumns[i].name+" = "+v)
	}
	return `WITH c AS MATERIALIZED (` + clockSQL + `),
i AS MATERIALIZED (` + rowsOf(updateColumns) + `),
u AS (
	UPDATE effectonce.operations o SET changed_at = c.now, ` + strings.Join(set, ", ") + `
	FROM i CROSS JOIN c
	WHERE ` + fence + ` AND c.behind <= ` + toleranceMicros + `
	RETURNING o.id, o.tenant, o.resource, i.alarm_change, i.ord, ` + names(prefixed(eventColumns), "i.") + `
),
v AS (
	INSERT INTO effectonce.events (operation, at, ` + names(eventColumns, "") + `)
	SELECT u.id, c.now, ` + names(prefixed(eventColumns), "u.") + ` FROM u CROSS JOIN c
)` + more + `
SELECT c.now, c.behind, c.high, u.ord FROM c LEFT JOIN u ON true`
}
