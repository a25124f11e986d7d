"""Topic configurations in the forms of others, as TOPIC_CONFIGS: tables in files, and RocketMQ's own."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

import orjson
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ..errors import BadOption, BadRows, failure, missing_path
from ..schemas import CONFIG_FIELDS, ROUTES, SET_ASIDE, TOPIC_CONFIGS

Check: TypeAlias = Callable[[str], str | None]
"""Returns why a line is no row; None = it is one."""

_SHOWN: Final = 80


class Form(StrEnum):
    """What files are."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    """A line of JSON a topic."""

    TOPICS_JSON = "topics-json"
    """The files in which RocketMQ's brokers keep their topics."""

    TOPIC_ROUTE = "topic-route"
    """What `mqadmin topicRoute` prints."""


_BY_SUFFIX: Final = {
    ".parquet": Form.PARQUET,
    ".csv": Form.CSV,
    ".json": Form.JSON,
    ".jsonl": Form.JSON,
    ".ndjson": Form.JSON,
}
_ALIASES: Final = {
    "brokername": "broker",
    "clustername": "cluster",
    "brokerclustername": "cluster",
    "topicname": "topic",
}
_ONLY_OF_A_SNAPSHOT: Final = frozenset(ROUTES.names) - frozenset(TOPIC_CONFIGS.names)
_ARRAY: Final = "{} is a JSON array over several lines: write a line for each topic, as jq -c '.[]' does"
_LENIENT: Final = {"allowUnquotedFieldNames": "true"}
"""RocketMQ writes numbers as names without quotes."""

# The folder of a broker, above those in which RocketMQ keeps the file; or what the file itself is called.
_BROKER_OF_FOLDER: Final = r"([^/]+?)(?:/store)?(?:/config)?/topics\.json$"
_BROKER_OF_FILE: Final = r"([^/]+?)(?:[._-]?topics)?\.json$"

_TOPICS_SCHEMA: Final = (
    "topicConfigTable map<string, struct<readQueueNums string, writeQueueNums string, perm string, "
    "topicSysFlag string, `order` string, topicFilterType string, attributes map<string, string>>>"
)
_ROUTE_SCHEMA: Final = (
    "brokerDatas array<struct<brokerName string, cluster string>>, "
    "queueDatas array<struct<brokerName string, readQueueNums string, writeQueueNums string, perm string, "
    "topicSysFlag string, topicSynFlag string>>"
)

# A block of JSON, in one line or from a brace at the beginning of a line to the next one that ends it, and
# before it perhaps a line with one word, the topic. Other lines are somebody's log.
_BLOCK: Final = r"(?ms)(?:^([^\s{}]+)[ \t]*\r?\n\s*)?(^\{[^\n]*\}[ \t]*\r?$|^\{.*?^\})"
_TOPIC_OF_FILE: Final = r"^(?:topicRoute[-_.])?(.+?)(?:\.[A-Za-z]+)?$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where configurations are, and what the files do not say themselves; raises BadOption."""

    path: str
    """A file, a folder or a pattern, as Spark takes it."""

    form: Form | None = None
    """None = by the suffix of the path."""

    broker: str = ""
    """With topics-json: the broker, of all files.

    Empty = the folder that holds topics.json, config/topics.json or store/config/topics.json, or BROKER.json.
    """

    topic: str = ""
    """With topic-route: the topic, of all files; empty = the line before, or the name of the file."""

    cluster: str = ""
    """Of all brokers for which nothing else says it."""

    strict: bool = False
    """Whether a file that cannot be read is an error, and not set aside."""

    def __post_init__(self) -> None:
        self.kind()

    def kind(self) -> Form:
        """Return the form, by the suffix of the path where none is named; raises BadOption."""
        return self.form or form_of(self.path)


@dataclass(frozen=True, slots=True)
class Configs:
    """What was read: `rows` as the sink takes them, `set_aside` as SET_ASIDE."""

    rows: DataFrame
    set_aside: DataFrame
    source: Source


def form_of(path: str) -> Form:
    """Return the form that a path shows; raises BadOption when it shows none."""
    name = PurePosixPath(path.rstrip("/")).name
    if name == "topics.json":
        return Form.TOPICS_JSON
    found = _BY_SUFFIX.get(PurePosixPath(name).suffix.lower())
    if found is None:
        what = f"the name of {path} does not show what it is: say one of {', '.join(Form)}"
        raise BadOption.of("load", "form", what)
    return found


def read_configs(spark: SparkSession, source: Source) -> Configs:
    """Read configurations; raises BadOption, and BadRows for columns and files that make no sense."""
    read = _READERS[source.kind()]
    try:
        found = read(spark, source)
    except (PySparkException, Py4JError) as error:
        if missing_path(error) is not None:
            raise BadOption.of("load", "path", f"there is nothing at {source.path}") from error
        raise unreadable(spark, source, error) from error
    if source.strict:
        for row in found.set_aside.limit(1).collect():
            raise BadRows(f"{row['file']}: {row['reason']}; without strict it is set aside")
    return found


def unreadable(spark: SparkSession, source: Source, error: Exception) -> BadRows:
    """Return why files cannot be read: with file and line, where a line is to blame."""
    find = _BAD_LINES.get(source.kind())
    found = find(spark, source.path) if find else None
    return BadRows(found or str(failure(error, f"reading {source.path}")))


def canonical_names(names: list[str]) -> dict[str, str]:
    """Return columns by those of TOPIC_CONFIGS that they are, in snake_case or as RocketMQ writes them.

    What only a snapshot has is left out. Raises BadRows for a column that is unknown, or stands twice.
    """
    known = {name.replace("_", ""): name for name in TOPIC_CONFIGS.names} | _ALIASES
    found: dict[str, str] = {}
    for name in names:
        canonical = known.get(name.replace("_", "").lower())
        if canonical is None and name.lower() in _ONLY_OF_A_SNAPSHOT:
            continue
        if canonical is None:
            raise BadRows(
                f"column {name!r} is none of a topic's configuration: "
                f"there are {', '.join(TOPIC_CONFIGS.names)}"
            )
        if canonical in found:
            raise BadRows(f"columns {found[canonical]!r} and {name!r} are both {canonical}")
        found[canonical] = name
    return found


def _parquet(spark: SparkSession, source: Source) -> Configs:
    return _of_table(spark, source, spark.read.parquet(source.path))


def _csv(spark: SparkSession, source: Source) -> Configs:
    # All as text: what is no number is told with its row when it is loaded, and not read as null.
    reader = spark.read.options(header="true", mode="FAILFAST", escape='"')
    return _of_table(spark, source, reader.csv(source.path))


def _json(spark: SparkSession, source: Source) -> Configs:
    if _begins_an_array(spark, source.path):
        raise BadRows(_ARRAY.format(source.path))
    reader = spark.read.options(primitivesAsString="true", mode="FAILFAST")
    return _of_table(spark, source, reader.json(source.path))


def _begins_an_array(spark: SparkSession, path: str) -> bool:
    """Whether the first line begins an array that goes on: Spark would take each line for a topic."""
    first = spark.read.text(path).where(F.trim("value") != "").first()
    line = first["value"].strip() if first is not None else ""
    return line.startswith("[") and not line.endswith("]")


def _of_table(spark: SparkSession, source: Source, frame: DataFrame) -> Configs:
    columns = {}
    for canonical, name in canonical_names(frame.columns).items():
        column = frame[f"`{name}`"]
        if canonical == "attributes" and isinstance(frame.schema[name].dataType, StructType):
            column = F.to_json(column)
        columns[canonical] = column
    if "problem" in frame.columns:  # a snapshot: what could not be read is no configuration
        frame = frame.where(frame["problem"].isNull())
    rows = frame.select(*(column.alias(name) for name, column in columns.items()))
    return Configs(_with_cluster(rows, source), spark.createDataFrame([], SET_ASIDE.schema), source)


def _with_cluster(rows: DataFrame, source: Source) -> DataFrame:
    if not source.cluster:
        return rows
    known = [F.nullif(F.trim("cluster"), F.lit(""))] if "cluster" in rows.columns else []
    return rows.withColumn("cluster", F.coalesce(*known, F.lit(source.cluster)))


def _texts(spark: SparkSession, source: Source, pattern: str) -> DataFrame:
    """Return path and content of each file; of a folder, those that match a pattern, at any depth."""
    reader = spark.read.option("recursiveFileLookup", "true")
    if not any(sign in source.path for sign in "*?[{") and not PurePosixPath(source.path).suffix:
        reader = reader.option("pathGlobFilter", pattern)
    frame = reader.text(source.path, wholetext=True)
    # The path is that of a URL, in which a plus sign is one.
    path = F.url_decode(F.replace(frame["_metadata.file_path"], F.lit("+"), F.lit("%2B")))
    return frame.select(F.regexp_replace(path, "^file:/+", "/").alias("file"), frame["value"])


def _topics_json(spark: SparkSession, source: Source) -> Configs:
    texts = _texts(spark, source, "*topics.json")
    table = F.from_json("value", _TOPICS_SCHEMA, _LENIENT)["topicConfigTable"]
    parsed = texts.select("file", _broker_of(source).alias("broker"), table.alias("table"))
    judged = parsed.withColumn(
        "reason",
        F.when(
            F.col("table").isNull(), "is no topics.json: there is no topicConfigTable in it, or no JSON"
        ).when(
            F.coalesce("broker", F.lit("")) == "",
            "its path does not show the broker: say which one it is, or rename it",
        ),
    )
    good = judged.where("reason is null").select("broker", F.explode("table").alias("topic", "config"))
    config = (F.col("config")[theirs].alias(ours) for theirs, ours in CONFIG_FIELDS.items())
    return _judged(good.select("broker", "topic", *config), judged, source)


def _judged(rows: DataFrame, judged: DataFrame, source: Source) -> Configs:
    aside = judged.where("reason is not null").select("file", "reason")
    return Configs(_with_cluster(rows, source), aside, source)


def _broker_of(source: Source) -> Column:
    if source.broker:
        return F.lit(source.broker)
    of_folder = F.regexp_extract("file", _BROKER_OF_FOLDER, 1)
    return F.when(of_folder != "", of_folder).otherwise(F.regexp_extract("file", _BROKER_OF_FILE, 1))


def _topic_route(spark: SparkSession, source: Source) -> Configs:
    texts = _texts(spark, source, "*")
    blocks = F.arrays_zip(
        F.regexp_extract_all("value", F.lit(_BLOCK), F.lit(1)).alias("topic"),
        F.regexp_extract_all("value", F.lit(_BLOCK), F.lit(2)).alias("json"),
    )
    name = F.regexp_extract(F.element_at(F.split("file", "/"), -1), _TOPIC_OF_FILE, 1)
    found = texts.select("file", name.alias("name"), F.explode_outer(blocks).alias("block"))
    route = F.from_json("block.json", _ROUTE_SCHEMA, _LENIENT)
    own = F.nullif(F.col("block.topic"), F.lit(""))
    topic = F.lit(source.topic) if source.topic else F.coalesce(own, "name")
    parsed = found.select("file", topic.alias("topic"), route.alias("route"))
    none = "is no output of mqadmin topicRoute: there are no queueDatas in it, or no JSON"
    judged = parsed.withColumn("reason", F.when(F.col("route.queueDatas").isNull(), none))
    good = judged.where("reason is null").select(
        "topic", "route", F.explode("route.queueDatas").alias("queues")
    )
    named = F.filter("route.brokerDatas", lambda broker: broker["brokerName"] == F.col("queues.brokerName"))
    rows = good.select(
        F.col("queues.brokerName").alias("broker"),
        F.try_element_at(named, F.lit(1))["cluster"].alias("cluster"),
        "topic",
        F.col("queues.readQueueNums").alias("read_queue_nums"),
        F.col("queues.writeQueueNums").alias("write_queue_nums"),
        F.col("queues.perm").alias("perm"),
        F.coalesce("queues.topicSysFlag", "queues.topicSynFlag").alias("topic_sys_flag"),
    )
    return _judged(rows, judged, source)


def bad_csv_line(spark: SparkSession, path: str) -> str | None:
    """Return file, line and what is wrong with the first line that is no row; None = nothing is found."""
    columns = len(spark.read.option("header", "true").csv(path).columns)

    def check(line: str) -> str | None:
        try:
            (cells,) = csv.reader([line], strict=True)
        except csv.Error as error:
            return str(error)
        return None if len(cells) == columns else f"has {len(cells)} columns, and the header {columns}"

    return _first_bad(spark.read.text(path), check, headers=1)


def bad_json_line(spark: SparkSession, path: str) -> str | None:
    """Return the same of lines of JSON."""
    return _first_bad(spark.read.text(path), _no_object, headers=0)


def _no_object(line: str) -> str | None:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return f"is no JSON: {error.msg} at column {error.colno}"
    return None if isinstance(found, dict) else "is no JSON object"


def _first_bad(lines: DataFrame, check: Check, *, headers: int) -> str | None:
    """Return the first line that is bad; Spark gives the blocks of a file in their order."""
    number: Counter[str] = Counter()
    for file, line in lines.select("_metadata.file_path", "value").toLocalIterator():
        number[file] += 1
        if line.strip() and number[file] > headers:
            why = "is no UTF-8" if "\ufffd" in line else check(line)
            if why is not None:
                return f"{_plain(file)}, line {number[file]}: {why}: {line[:_SHOWN]}"
    return None


def _plain(url: str) -> str:
    """Return the path of a local file as people write it, and any other as it is."""
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" else url


_READERS: Final[Mapping[Form, Callable[[SparkSession, Source], Configs]]] = {
    Form.PARQUET: _parquet,
    Form.CSV: _csv,
    Form.JSON: _json,
    Form.TOPICS_JSON: _topics_json,
    Form.TOPIC_ROUTE: _topic_route,
}
_BAD_LINES: Final = {Form.CSV: bad_csv_line, Form.JSON: bad_json_line}
