/** Methods that the backend is to register. Each leaves this file when the generated types have it. */
export {};

interface Session_ {
  sessionId: string;
}
interface Row {
  key: string;
  calls: number;
  costMicros: number;
  tokens: number;
}
interface Node {
  sessionId: string;
  turnId: string;
  goal: string;
  state: string;
  steps: number;
  costMicros: number;
  children: Node[];
}

declare module "../../lib/rpc/schema.gen" {
  interface AgentSendParams {
    attachments?: { blob: string; name: string }[];
  }
  interface Methods {
    "chat.fork": { params: Session_ & { atSeq?: number }; result: AgentSessionResult };
    "chat.attach": { params: { name: string; base64?: string; token?: string }; result: { blob: string; mime: string; bytes: number } };
    "chat.context": { params: Session_; result: { window: number; used: number; parts: { kind: string; name: string; tokens: number; cached: boolean; text?: string }[]; omitted: string[]; precedence: string[] } };
    "chat.cost": {
      params: Session_;
      result: { costMicros: number; estimatedMicros: number; tokens: ProvidersUsage; calls: number; byModel: Row[]; byPurpose: Row[]; byTurn: Row[]; children: Row[] };
    };
    "chat.events": { params: Session_ & { afterSeq?: number; limit?: number }; result: { events: { seq: number; type: string; turnId?: string; at: string; data: unknown }[]; lastSeq: number } };
    "chat.export": { params: Session_ & { format?: string }; result: { blob: string; name: string } };
    "agent.tree": { params: Session_; result: { nodes: Node[] } };
  }
}
