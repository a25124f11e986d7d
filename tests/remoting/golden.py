"""Frames and JSON as RocketMQ itself writes them.

The frames are what RemotingCommand.encode() of rocketmq-remoting 5.3.3 returned on Java 17, for commands made
with its own header classes; the JSON texts are what its RemotingSerializable wrote, with fastjson 1.2.83.
"""

from __future__ import annotations

from typing import Final

from sharedroutes.remoting import LanguageCode, RemotingCommand, SerializeType

COMMANDS: Final = {
    "route_request": RemotingCommand(
        code=105, language=LanguageCode.JAVA, version=0, opaque=7, ext_fields={"topic": "T1"}
    ),
    "error_response": RemotingCommand(
        code=17,
        language=LanguageCode.JAVA,
        version=0,
        opaque=-2,
        flag=1,
        remark="No topic route info: caf\u00e9 \U0001f680",
    ),
    "empty_header_response": RemotingCommand(
        code=0,
        language=LanguageCode.JAVA,
        version=0,
        opaque=2_147_483_647,
        flag=1,
        ext_fields={},
        body=b"{}",
    ),
    "oneway_request": RemotingCommand(
        code=104,
        language=LanguageCode.GO,
        version=401,
        opaque=8,
        flag=2,
        ext_fields={
            "brokerId": "0",
            "clusterName": "C1",
            "brokerAddr": "10.0.0.1:10911",
            "brokerName": "broker-a",
        },
    ),
}
"""What the frames say; a binary one says None for an empty header."""

FRAMES: Final = {
    ("route_request", SerializeType.JSON): (
        "0000007e0000007a7b22636f6465223a3130352c226578744669656c6473223a7b22746f706963223a225431227d"
        "2c22666c6167223a302c226c616e6775616765223a224a415641222c226f7061717565223a372c2273657269616c"
        "697a655479706543757272656e74525043223a224a534f4e222c2276657273696f6e223a307d"
    ),
    ("route_request", SerializeType.ROCKETMQ): (
        "000000260100002200690000000000000700000000000000000000000d0005746f706963000000025431"
    ),
    ("error_response", SerializeType.JSON): (
        "0000008e0000008a7b22636f6465223a31372c22666c6167223a312c226c616e6775616765223a224a415641222c"
        "226f7061717565223a2d322c2272656d61726b223a224e6f20746f70696320726f75746520696e666f3a20636166"
        "c3a920f09f9a80222c2273657269616c697a655479706543757272656e74525043223a224a534f4e222c22766572"
        "73696f6e223a307d"
    ),
    ("error_response", SerializeType.ROCKETMQ): (
        "00000038010000340011000000fffffffe000000010000001f4e6f20746f70696320726f75746520696e666f3a20"
        "636166c3a920f09f9a8000000000"
    ),
    ("empty_header_response", SerializeType.JSON): (
        "0000007b000000757b22636f6465223a302c226578744669656c6473223a7b7d2c22666c6167223a312c226c616e"
        "6775616765223a224a415641222c226f7061717565223a323134373438333634372c2273657269616c697a655479"
        "706543757272656e74525043223a224a534f4e222c2276657273696f6e223a307d7b7d"
    ),
    ("empty_header_response", SerializeType.ROCKETMQ): (
        "0000001b0100001500000000007fffffff0000000100000000000000007b7d"
    ),
    ("oneway_request", SerializeType.JSON): (
        "000000c9000000c57b22636f6465223a3130342c226578744669656c6473223a7b2262726f6b65724964223a2230"
        "222c22636c75737465724e616d65223a224331222c2262726f6b657241646472223a2231302e302e302e313a3130"
        "393131222c2262726f6b65724e616d65223a2262726f6b65722d61227d2c22666c6167223a322c226c616e677561"
        "6765223a22474f222c226f7061717565223a382c2273657269616c697a655479706543757272656e74525043223a"
        "224a534f4e222c2276657273696f6e223a3430317d"
    ),
    ("oneway_request", SerializeType.ROCKETMQ): (
        "000000710100006d006809019100000008000000020000000000000058000862726f6b657249640000000130000b"
        "636c75737465724e616d65000000024331000a62726f6b6572416464720000000e31302e302e302e313a31303931"
        "31000a62726f6b65724e616d650000000862726f6b65722d61"
    ),
}
"""Each command with both kinds of header, as hexadecimal digits."""

CLUSTER_INFO: Final = (
    b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.1:10911",1:"1'
    b'0.0.0.2:10911"},"brokerName":"broker-a","cluster":"C1","enableActingMa'
    b'ster":false}},"clusterAddrTable":{"C1":["broker-a"]}}'
)
"""The body of a ClusterInfo."""

TOPICS: Final = (
    b'{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":1},"mappingDa'
    b'taVersion":{"counter":0,"stateVersion":0,"timestamp":2},"topicConfigTa'
    b'ble":{"T,1:{2:\\"x\\u0001\\u000B\\t/\xc3\xa9":{"attributes":{"message.type":"FIFO'
    b'"},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_'
    b'TAG","topicName":"T,1:{2:\\"x\\u0001\\u000B\\t/\xc3\xa9","topicSysFlag":0,"writeQ'
    b'ueueNums":4}},"topicQueueMappingDetailMap":{"T1":{"bname":"broker-a","'
    b'currIdMap":{0:1},"dirty":false,"epoch":5,"hostedQueues":{0:[{"bname":"'
    b'broker-a","endOffset":-1,"gen":0,"logicOffset":0,"queueId":1,"startOff'
    b'set":0,"timeOfEnd":-1,"timeOfStart":-1}]},"scope":"__global__","topic"'
    b':"T1","totalQueues":2}},"topicQueueMappingInfoMap":{}}'
)
"""The body of a TopicConfigAndMappingSerializeWrapper; the name of the topic looks like JSON."""

NAMED_LIKE_JSON: Final = b'{"k\\"{0:":[1,2],"m":{-1:"{1:,2:"}}'
"""A map with a negative key, and strings that look like maps."""

CONTROL_CHARACTERS: Final = (
    b'"\\u0000\\u0001\\u0002\\u0003\\u0004\\u0005\\u0006\\u0007\\b\\t\\n\\u000B\\f\\r\\u000'
    b"E\\u000F\\u0010\\u0011\\u0012\\u0013\\u0014\\u0015\\u0016\\u0017\\u0018\\u0019\\u0"
    b"01A\\u001B\\u001C\\u001D\\u001E\\u001F~\\u007F\\u0080\\u0081\\u0082\\u0083\\u0084"
    b"\\u0085\\u0086\\u0087\\u0088\\u0089\\u008A\\u008B\\u008C\\u008D\\u008E\\u008F\\u00"
    b"90\\u0091\\u0092\\u0093\\u0094\\u0095\\u0096\\u0097\\u0098\\u0099\\u009A\\u009B\\u"
    b'009C\\u009D\\u009E\\u009F\xc2\xa0"'
)
"""The string of U+0000 to U+001F and of U+007E to U+00A0."""
