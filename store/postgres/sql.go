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

// insertColumns are the arrays of createStatement, updateColumns those of the apply statements, keptUpdateColumns with retention.
var (
	insertColumns = slices.Concat(identityColumns, lifeColumns, momentColumns, columns(typeInt, "moved"), prefixed(eventColumns))
	updateColumns = slices.Concat(columns(typeBytes, "key"), columns(typeInt, "from_version from_due"), columns(typeBool, "takes"),
		columns(typeInt, "alarm_change"), lifeColumns, momentColumns, columns(typeInt, "moved"), prefixed(eventColumns))
	keptUpdateColumns = slices.Concat(updateColumns, keptColumns, columns(typeBool, "emptied"))
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

// oneRow is the same for a single row of plain parameters from $3 on.
func oneRow(cols []column) string {
	values := make([]string, len(cols))
	for i, c := range cols {
		values[i] = fmt.Sprintf("$%d::%s AS %s", i+3, c.sqlType.name, c.name)
	}
	return "SELECT 1::bigint AS ord, " + strings.Join(values, ", ")
}

// recordColumns are the row of recordStatement, oneUpdateColumns that of applyOneStatement.
var (
	recordColumns = slices.Concat(columns(typeInt, "id"), identityColumns, lifeColumns, momentColumns, columns(typeInt, "moved"),
		prefixed(eventColumns), rareColumns, keptColumns)
	oneUpdateColumns = slices.Concat(keptUpdateColumns, columns(typeBool, "releases"))
)

// recordStatement stores one new operation with everything that it can have, unless its key is there or its resource is held. It
// returns the id that the operation has, or none.
var recordStatement = newStatement(`WITH c AS MATERIALIZED (` + clockSQL + `),
i AS MATERIALIZED (` + oneRow(recordColumns) + `),
n AS (
	INSERT INTO effectonce.operations (id, changed_at, ` + names(identityColumns, "") + `, ` + names(lifeColumns, "") + `, ` + names(momentColumns, "") + `, ` + names(rareColumns, "") + `, ` + names(keptColumns, "") + `)
	SELECT coalesce(i.id, nextval('effectonce.operation_ids')), c.now, ` + names(identityColumns, "i.") + `, ` + names(lifeColumns, "i.") + `, ` +
	strings.Join(slices.Concat(stamped(momentColumns, 0), []string{names(rareColumns, "i.")}, stamped(keptColumns, momentsCount)), ", ") + `
	FROM i CROSS JOIN c
	WHERE c.behind <= ` + toleranceMicros + `
	AND (i.hold IS NOT NULL OR i.resource IS NULL OR NOT EXISTS (SELECT FROM effectonce.holds h WHERE h.resource = i.resource AND h.tenant = i.tenant))
	ON CONFLICT (key) DO NOTHING
	RETURNING id
),
v AS (
	INSERT INTO effectonce.events (operation, at, ` + names(eventColumns, "") + `)
	SELECT n.id, c.now, ` + names(prefixed(eventColumns), "i.") + ` FROM n CROSS JOIN i CROSS JOIN c
)
SELECT c.now, c.behind, c.high, n.id FROM c LEFT JOIN n ON true`)

// applyOneStatement stores one transition, whatever it changes.
var applyOneStatement = newStatement(applySQL(oneRow(oneUpdateColumns), true, alarmSQL+releaseSQL))

// stamped are the values of moments, the first of which has the given bit in moved: distances become times.
func stamped(cols []column, bit int) []string {
	var all []string
	for i, c := range cols {
		all = append(all, fmt.Sprintf("i.%s + ((i.moved >> %d) & 1) * c.now", c.name, bit+i))
	}
	return all
}

// settable are the moments that a transition after the first can move: all but created_at.
var settable = momentColumns[:momentsCount-1]

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
	SELECT i.id, c.now, ` + names(identityColumns, "i.") + `, ` + names(lifeColumns, "i.") + `, ` + strings.Join(stamped(momentColumns, 0), ", ") + `
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

// applyStatements store transitions with their events, and return the rows that fitted. The first index says that some start or end
// holds of resources (S7.1), the second that some move the moments of retention (S13), which are rarer.
var applyStatements = [2][2]*statement{
	{newStatement(applySQL(rowsOf(updateColumns), false, "")), newStatement(applySQL(rowsOf(keptUpdateColumns), true, ""))},
	{newStatement(applySQL(rowsOf(updateColumns), false, alarmSQL)), newStatement(applySQL(rowsOf(keptUpdateColumns), true, alarmSQL))},
}

const (
	alarmSQL = `,
h AS (INSERT INTO effectonce.holds (operation, tenant, resource) SELECT u.id, u.tenant, u.resource FROM u WHERE u.alarm_change > 0),
g AS (DELETE FROM effectonce.holds WHERE operation IN (SELECT u.id FROM u WHERE u.alarm_change < 0))`
	// releaseSQL gives reservations back (S8.3). There is one row, so that no limit is met twice.
	releaseSQL = `,
d AS (DELETE FROM effectonce.reservations WHERE operation IN (SELECT u.id FROM u WHERE u.releases) RETURNING limit_id, amount),
l AS (UPDATE effectonce.limits l SET used = l.used - d.amount FROM (SELECT * FROM d WHERE d.limit_id % 1 = 0) d WHERE l.id = d.limit_id)`
)

// applySQL is the statement for the rows i; kept says that they have the moments of retention.
func applySQL(rows string, kept bool, more string) string {
	var set []string
	for _, c := range lifeColumns {
		set = append(set, c.name+" = i."+c.name)
	}
	for i, v := range stamped(settable, 0) {
		set = append(set, settable[i].name+" = "+v)
	}
	if kept {
		for i, v := range stamped(keptColumns, momentsCount) {
			set = append(set, keptColumns[i].name+" = "+v)
		}
		for _, name := range []string{"business", "arguments", "request"} {
			set = append(set, name+" = CASE WHEN i.emptied THEN NULL ELSE o."+name+" END")
		}
		set = append(set, "same = CASE WHEN i.emptied THEN 0 ELSE o.same END")
	}
	releases := ""
	if strings.Contains(more, "u.releases") {
		releases = "i.releases, "
	}
	return `WITH c AS MATERIALIZED (` + clockSQL + `),
i AS MATERIALIZED (` + rows + `),
u AS (
	UPDATE effectonce.operations o SET changed_at = c.now, ` + strings.Join(set, ", ") + `
	FROM i CROSS JOIN c
	WHERE ` + fence + ` AND c.behind <= ` + toleranceMicros + `
	RETURNING o.id, o.tenant, o.resource, i.alarm_change, i.ord, ` + releases + names(prefixed(eventColumns), "i.") + `
),
v AS (
	INSERT INTO effectonce.events (operation, at, ` + names(eventColumns, "") + `)
	SELECT u.id, c.now, ` + names(prefixed(eventColumns), "u.") + ` FROM u CROSS JOIN c
)` + more + `
SELECT c.now, c.behind, c.high, u.ord FROM c LEFT JOIN u ON true`
}
