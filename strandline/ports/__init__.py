"""The outside world as Protocols. Adapters implement them, and a simulator can too.

Services and clients read the clock, open files and talk to ZooKeeper only through these Protocols.
"""

from __future__ import annotations

from strandline.ports.clock import Clock as Clock
from strandline.ports.coordination import BadVersion as BadVersion
from strandline.ports.coordination import Check as Check
from strandline.ports.coordination import ConnectionLost as ConnectionLost
from strandline.ports.coordination import Coordination as Coordination
from strandline.ports.coordination import Create as Create
from strandline.ports.coordination import Delete as Delete
from strandline.ports.coordination import LinkState as LinkState
from strandline.ports.coordination import MultiFailed as MultiFailed
from strandline.ports.coordination import NodeExists as NodeExists
from strandline.ports.coordination import NoNode as NoNode
from strandline.ports.coordination import NotEmpty as NotEmpty
from strandline.ports.coordination import NotPermitted as NotPermitted
from strandline.ports.coordination import Operation as Operation
from strandline.ports.coordination import SessionEnded as SessionEnded
from strandline.ports.coordination import SetData as SetData
from strandline.ports.coordination import Znode as Znode
from strandline.ports.files import NO_DESCRIPTORS as NO_DESCRIPTORS
from strandline.ports.files import NO_SPACE as NO_SPACE
from strandline.ports.files import Files as Files
from strandline.ports.files import SyncFailed as SyncFailed
from strandline.ports.serving import Caller as Caller
from strandline.ports.serving import Listener as Listener
from strandline.ports.serving import Reply as Reply
from strandline.ports.serving import Rpc as Rpc
from strandline.ports.serving import Served as Served
from strandline.ports.serving import ServedCall as ServedCall
from strandline.ports.serving import ServedStream as ServedStream
from strandline.ports.transport import BlockingCall as BlockingCall
from strandline.ports.transport import BlockingTransport as BlockingTransport
from strandline.ports.transport import CallUnknown as CallUnknown
from strandline.ports.transport import Method as Method
from strandline.ports.transport import RefusedForNow as RefusedForNow
from strandline.ports.transport import Request as Request
from strandline.ports.transport import RequestIn as RequestIn
from strandline.ports.transport import Response as Response
from strandline.ports.transport import ResponseOut as ResponseOut
from strandline.ports.transport import Stream as Stream
from strandline.ports.transport import StreamEnded as StreamEnded
from strandline.ports.transport import StreamOver as StreamOver
from strandline.ports.transport import Transport as Transport
