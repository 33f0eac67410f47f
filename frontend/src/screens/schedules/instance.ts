/** The single Schedules screen of the page. It exists as long as the page, so its input does too. */
import { bridge, rpc } from "../../lib/rpc";
import { lasting, nav, toasts } from "../../lib/ui/state";
import { Notices } from "./notices.svelte";
import { SchedulesScreen } from "./schedules.svelte";

let screen: SchedulesScreen | null = null;
let notices: Notices | null = null;

/** The screen's state; created on first use. */
export function schedulesScreen(): SchedulesScreen {
  if (screen === null) {
    screen = lasting(() => new SchedulesScreen(rpc, toasts));
    screen.toApprovals = () => nav.go("approvals");
  }
  return screen;
}

/** Shows notices of schedules, whichever screen is open. */
export function startNotices(): void {
  notices ??= new Notices(rpc, {
    toast: (t) => void toasts.add(t),
    desktop: (n) => {
      const window = bridge();
      // If the page has the focus, the notice is shown in its corner.
      if (!window || document.hasFocus()) return false;
      void window.Notify({ id: n.noticeId, title: n.title, body: n.body, link: n.scheduleId ? `helix://schedules/${n.scheduleId}` : "helix://schedules/history" });
      return true;
    },
    open: (scheduleId, runId) => nav.go(scheduleId === "" ? "schedules/history" : runId === "" ? `schedules/${scheduleId}` : `schedules/${scheduleId}/runs/${runId}`),
  });
  notices.start();
}
