// Serves the Stripe double on a free port of the loopback interface, says which, and ends with its standard input.
const { createExpressApp } = require("stripe-stateful-mock");

const server = createExpressApp().listen(0, "127.0.0.1", () => {
    console.log(`http://127.0.0.1:${server.address().port}`);
});
process.stdin.on("end", () => process.exit(0));
process.stdin.resume();
