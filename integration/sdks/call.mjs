// One call of an agent's tool: one write with an official SDK, which is as it was published and has its own retries as they are set when
// nobody sets them. Says in one line of JSON how it ended for the caller.
// job: which SDK, the base URL of its API, what the write is about, the intent (none without the proxy), the caller's patience in ms.
const job = JSON.parse(process.argv[2]);
const headers = job.intent ? { "Effectonce-Intent": job.intent } : {};

const calls = {
  // Its base URL takes host and port, but no path. The path is put before in the fetch function that it lets one give.
  async stripe() {
    const { default: Stripe } = await import("stripe");
    const stripe = new Stripe("sk_test_agent", {
      httpClient: Stripe.createFetchHttpClient((url, init) => fetch(job.base + new URL(url).pathname, init)),
      timeout: job.timeout,
      telemetry: false,
    });
    return (await stripe.refunds.create({ charge: job.about, amount: 48000, metadata: { ticket: job.about } })).id;
  },
  async slack() {
    const { LogLevel, WebClient } = (await import("@slack/web-api")).default;
    const slack = new WebClient("xoxb-agent", { slackApiUrl: job.base + "/api/", headers, timeout: job.timeout, logLevel: LogLevel.ERROR });
    return (await slack.chat.postMessage({ channel: "orders", text: job.about })).ts;
  },
  async resend() {
    const { Resend } = await import("resend");
    const resend = new Resend("re_agent", { baseUrl: job.base });
    const email = { from: "shop@shop.example", to: "ann@mail.example", subject: job.about, text: "Your refund is on its way." };
    const { data, error } = await resend.emails.send(email, { headers, signal: AbortSignal.timeout(job.timeout) });
    if (error) throw Object.assign(new Error(error.message), { status: error.statusCode });
    return data.id;
  },
  async octokit() {
    const { Octokit } = await import("octokit");
    const github = new Octokit({ auth: "agent", baseUrl: job.base, log: { debug() {}, info() {}, warn() {}, error() {} } });
    const issue = { owner: "agent", repo: "shop", title: job.about, headers, request: { signal: AbortSignal.timeout(job.patience) } };
    return String((await github.rest.issues.create(issue)).data.number);
  },
  async square() {
    const { SquareClient } = (await import("square")).default;
    const square = new SquareClient({ token: "agent", baseUrl: job.base });
    const payment = { idempotencyKey: crypto.randomUUID(), sourceId: "cnon:ok", amountMoney: { amount: 48000n, currency: "EUR" }, note: job.about };
    return (await square.payments.create(payment, { headers, timeoutInSeconds: job.timeout / 1000 })).payment.id;
  },
};

// Some SDKs repeat for half an hour. A caller that gives up before ends its process.
const patience = setTimeout(() => end({ error: "the caller gave up, the SDK was still repeating" }), job.patience);

function end(how) {
  clearTimeout(patience);
  process.stdout.write(JSON.stringify(how) + "\n", () => process.exit(0));
}

try {
  end({ id: await calls[job.sdk]() });
} catch (e) {
  end({ error: String(e?.message ?? e) || "failed", status: e?.statusCode ?? e?.status });
}
