"""The numbers of the protocol that name servers and brokers use (RocketMQ 5.3.3)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

CURRENT_VERSION: Final = 479
"""What a command says about its sender (RocketMQ: MQVersion.CURRENT_VERSION, V5_3_3)."""


class SerializeType(IntEnum):
    """How the header of a frame is written."""

    JSON = 0
    ROCKETMQ = 1
    """Binary and shorter; codes and versions are limited to 32,767 there."""


class LanguageCode(IntEnum):
    """What the sender of a command is written in."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13


class RequestCode(IntEnum):
    """Requests to a name server, and to a broker by its agent and by producers."""

    GET_ALL_TOPIC_CONFIG = 21
    GET_BROKER_CONFIG = 26
    GET_MAX_OFFSET = 30
    HEART_BEAT = 34
    PUT_KV_CONFIG = 100
    GET_KV_CONFIG = 101
    DELETE_KV_CONFIG = 102
    REGISTER_BROKER = 103
    UNREGISTER_BROKER = 104
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    WIPE_WRITE_PERM_OF_BROKER = 205
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_TOPIC_IN_NAMESRV = 216
    REGISTER_TOPIC_IN_NAMESRV = 217
    GET_KVLIST_BY_NAMESPACE = 219
    GET_TOPICS_BY_CLUSTER = 224
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304
    SEND_MESSAGE_V2 = 310
    """Sent by a producer: SEND_MESSAGE, 10, with a header of short names."""

    GET_UNIT_TOPIC_LIST = 311
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313
    UPDATE_NAMESRV_CONFIG = 318
    GET_NAMESRV_CONFIG = 319
    QUERY_DATA_VERSION = 322
    ADD_WRITE_PERM_OF_BROKER = 327
    GET_BROKER_MEMBER_GROUP = 901
    BROKER_HEARTBEAT = 904
    NOTIFY_MIN_BROKER_ID_CHANGE = 905
    """Sent by a name server, one-way, to the brokers of a group."""


class ResponseCode(IntEnum):
    """How a request ended."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    FLUSH_DISK_TIMEOUT = 10
    """The broker has the message in memory, and not on its disk in time."""

    SLAVE_NOT_AVAILABLE = 11
    """The master has the message, and no slave is there to copy it."""

    FLUSH_SLAVE_TIMEOUT = 12
    """The master has the message, and no slave had it in time."""

    SERVICE_NOT_AVAILABLE = 14
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    QUERY_NOT_FOUND = 22
    NO_BUYER_ID = 204
    NOT_IN_CURRENT_UNIT = 205
    GO_AWAY = 1500
    """The server is shutting down: ask another one."""


class ClientErrorCode(IntEnum):
    """What went wrong before a broker gave an answer (RocketMQ: ClientErrorCode of the client)."""

    CONNECT_BROKER_EXCEPTION = 10001
    ACCESS_BROKER_TIMEOUT = 10002
    BROKER_NOT_EXIST_EXCEPTION = 10003
    NO_NAME_SERVER_EXCEPTION = 10004
    NOT_FOUND_TOPIC_EXCEPTION = 10005
    REQUEST_TIMEOUT_EXCEPTION = 10006
    CREATE_REPLY_MESSAGE_EXCEPTION = 10007
