// All that a page of another site can try, by name, and what comes of it.
async ([server, deployment, body]) => {
  const start = `${server}/api/deployments/${deployment}/create_flow_run`;
  const json = {"Content-Type": "application/json", "Prefect-Csrf-Client": "x", "Prefect-Csrf-Token": "x"};
  const guess = {Authorization: "Basic bm10Om5tdA=="};
  const asks = {
    get: () => fetch(`${server}/api/deployments/name/gc/gc`),
    "no-cors get": () => fetch(`${server}/api/deployments/name/gc/gc`, {mode: "no-cors"}),
    "get of a page": () => fetch(`${server}/ui-settings`, {mode: "no-cors"}),
    token: () => fetch(`${server}/api/csrf-token?client=x`),
    "simple post": () => fetch(`${server}/api/deployments/filter`, {method: "POST", body: new Blob(["{}"])}),
    "no-cors post": () => fetch(start, {method: "POST", mode: "no-cors", body}),
    "no-cors post without a type": () => fetch(start, {method: "POST", mode: "no-cors", body: new Blob([body])}),
    "with cookies": () => fetch(start, {method: "POST", credentials: "include", body: new Blob([body])}),
    preflighted: () => fetch(start, {method: "POST", headers: json, body}),
    "guessed password": () => fetch(`${server}/api/flows/count`, {method: "POST", headers: {...json, ...guess}}),
    patch: () => fetch(`${server}/api/deployments/${deployment}`, {method: "PATCH", headers: json, body: "{}"}),
    beacon: async () => { navigator.sendBeacon(start, body); return {type: "opaque"}; },
    form: () => new Promise(resolve => {
      const [frame, form] = [document.createElement("iframe"), document.createElement("form")];
      Object.assign(form, {action: start, method: "post", enctype: "text/plain", target: frame.name = "hidden"});
      form.innerHTML = "<input>";
      form.firstChild.name = body;
      frame.onload = () => resolve({type: "opaque"});
      document.body.append(frame, form);
      form.submit();
    }),
    script: () => new Promise((resolve, reject) => {
      const script = document.createElement("script");
      Object.assign(script, {onload: () => resolve({type: "opaque"}), onerror: reject});
      script.src = `${server}/api/admin/settings`;
      document.body.append(script);
    }),
    socket: () => new Promise((resolve, reject) => {
      const socket = new WebSocket(`${server.replace("http", "ws")}/api/events/out`, "prefect");
      socket.onopen = () => resolve({type: "basic", status: 101, text: async () => ""});
      socket.onerror = reject;
    }),
  };
  const got = {};
  for (const [name, ask] of Object.entries(asks)) {
    try {
      const answer = await ask();
      got[name] = answer.type === "opaque" ? "unreadable" : `${answer.status} ${await answer.text()}`;
    } catch { got[name] = "blocked"; }
  }
  return got;
}
