/** The one Schedules screen of the page. It lives as long as the page, so what is typed does too. */
import { bridge, rpc } from "../../lib/rpc";
import { lasting, nav, toasts } from "../../lib/ui/state";
import { Notices } from "./notices.svelte";
import { SchedulesScreen } from "./schedules.svelte";

let screen: SchedulesScreen | null = null;
let notices: Notices | null = null;

/** The screen's state; made when it is first needed. */
export function schedulesScreen(): SchedulesScreen {
  if (screen === null) {
    screen = lasting(() => new SchedulesScreen(rpc, toasts));
    screen.toApprovals = () => nav.go("approvals");
  }
  return screen;
}

/** Shows what schedules have to say, whichever screen is open. */
export function startNotices(): void {
  notices ??= new Notices(rpc, {
    toast: (t) => void toasts.add(t),
    desktop: (n) => {
      const window = bridge();
      // Whoever looks at Helix sees it in the corner.
      if (!window || document.hasFocus()) return false;
      void window.Notify({ id: n.noticeId, title: n.title, body: n.body });
      return true;
    },
    open: (scheduleId, runId) => nav.go(scheduleId === "" ? "schedules/history" : runId === "" ? `schedules/${scheduleId}` : `schedules/${scheduleId}/runs/${runId}`),
  });
  notices.start();
}
