"""Where the topics of a broker come from: its files, the running broker, or the program around the agent."""

from .files import FileTopics, FreshTopics
from .remote import RemoteTopics
from .source import Choice, ProgramTopics, TopicSource, choose

__all__ = ["Choice", "FileTopics", "FreshTopics", "ProgramTopics", "RemoteTopics", "TopicSource", "choose"]
